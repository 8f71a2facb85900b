// What scrolls by itself is reached by Tab, so that arrow keys move it.
document.addEventListener("DOMContentLoaded", () => {
  const reach = () => {
    for (const each of document.querySelectorAll("pre, pre > code, table")) {
      if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
      else each.removeAttribute("tabindex");
    }
  };
  reach();
  addEventListener("resize", reach);
});
