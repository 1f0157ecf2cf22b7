// Search, open the route that the address names, copy commands. The page works without.
"use strict";

const search = document.getElementById("search");
const routes = [...document.querySelectorAll("main details[data-text]")];

const filter = () => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const route of routes) {
    const matches = words.every((word) => route.dataset.text.includes(word));
    route.hidden = !matches;
    document.querySelector(`nav [data-route="${CSS.escape(route.id)}"]`).hidden = !matches;
    shown += matches;
  }
  for (const group of document.querySelectorAll("[data-group]")) {
    group.hidden = !group.querySelector("details:not([hidden]), li:not([hidden])");
  }
  document.getElementById("types").hidden = words.length > 0;
  document.getElementById("nothing").hidden = shown > 0;
};

const openTarget = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) {
    target.open = true;
    target.scrollIntoView();
  }
};

search.addEventListener("input", filter);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== search) {
    event.preventDefault();
    search.focus();
  } else if (event.key === "Escape" && document.activeElement === search) {
    search.value = "";
    filter();
  }
});
window.addEventListener("hashchange", openTarget);
document.addEventListener("click", (event) => {
  // A click on the link of a route that is the target already does not change the address.
  if (event.target.closest(`a[href="${location.hash}"]`)) openTarget();
});

const variables = document.getElementById("variables");
variables.textContent = variables.textContent.replace(/URL=.*/, `URL=${location.origin}`);

for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
}
openTarget();
