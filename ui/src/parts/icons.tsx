// The icons of the pages, drawn with lines of one width.
const PATHS = {
  home: "M3 11l9-8 9 8v10h-6v-7H9v7H3z",
  book: "M4 4h7a2 2 0 0 1 2 2v14a2 2 0 0 0-2-2H4zM20 4h-5a2 2 0 0 0-2 2v14a2 2 0 0 1 2-2h5z",
  chat: "M4 4h16v12H9l-5 4z",
  check: "M4 12l5 5L20 6",
  search: "M11 4a7 7 0 1 1 0 14a7 7 0 0 1 0-14zM16 16l5 5",
  sync: "M4 12a8 8 0 0 1 14-5l2 2M20 4v5h-5M20 12a8 8 0 0 1-14 5l-2-2M4 20v-5h5",
  question: "M9 9a3 3 0 1 1 4 3c-1 .5-1 1-1 2M12 18v.5M12 2a10 10 0 1 1 0 20a10 10 0 0 1 0-20z",
  chart: "M4 4v16h16M8 15l3-4 3 2 5-7",
  clock: "M12 3a9 9 0 1 1 0 18a9 9 0 0 1 0-18zM12 7v5l3 2",
  scale: "M12 4v16M7 20h10M5 7h14M5 7l-3 7h6zM19 7l-3 7h6z",
  gear: "M12 9a3 3 0 1 1 0 6a3 3 0 0 1 0-6zM12 2v4M12 18v4M2 12h4M18 12h4M5 5l3 3M16 16l3 3M19 5l-3 3M8 16l-3 3",
  people: "M9 5a3 3 0 1 1 0 6a3 3 0 0 1 0-6zM3 20c0-4 3-6 6-6s6 2 6 6M16 6a3 3 0 0 1 0 5M18 14c2 .7 3 2.700 3 6",
  shield: "M12 3l8 3v6c0 5-4 8-8 9-4-1-8-4-8-9V6z",
  menu: "M4 6h16M4 12h16M4 18h16",
  close: "M5 5l14 14M19 5L5 19",
  plus: "M12 5v14M5 12h14",
  sun: "M12 8a4 4 0 1 1 0 8a4 4 0 0 1 0-8zM12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M19 5l-2 2M7 17l-2 2",
  moon: "M20 14A8 8 0 0 1 10 4a8 8 0 1 0 10 10z",
  contrast: "M12 3a9 9 0 1 1 0 18zM12 3a9 9 0 0 0 0 18",
  edit: "M4 20l1-5L16 4l4 4L9 19z",
  play: "M7 4l12 8-12 8z",
  stop: "M6 6h12v12H6z",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  leave: "M14 4H5v16h9M10 12h11M17 8l4 4-4 4",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
