// Runs before the first paint, so that a chosen theme does not flash in after the other one.
"use strict";
(() => {
  const themes = ["auto", "light", "dark"];
  const kept = () => {
    try {
      return localStorage.getItem("specon-theme");
    } catch {
      return null; // a browser that keeps nothing
    }
  };
  let theme = themes.includes(kept()) ? kept() : "auto";
  const show = () => {
    document.documentElement.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) button.textContent = `Theme: ${theme}`;
  };
  show();
  document.addEventListener("DOMContentLoaded", () => {
    show();
    document.getElementById("theme").addEventListener("click", () => {
      theme = themes[(themes.indexOf(theme) + 1) % themes.length];
      try {
        localStorage.setItem("specon-theme", theme);
      } catch {
        // then for this page only
      }
      show();
    });
  });
})();
