declare module "virtual:messages/*" {
  const lines: string;
  export default lines;
}
