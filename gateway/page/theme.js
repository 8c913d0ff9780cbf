// Light or dark as it was chosen, before anything is drawn.
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* a browser that keeps nothing decides by itself */ }
