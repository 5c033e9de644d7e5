// Before anything is painted: the theme that was chosen, so that nothing flashes.
"use strict";
{
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
