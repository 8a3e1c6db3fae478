// Before anything is drawn: the theme that was chosen here, if one was.
{
  let theme = null;
  try {
    theme = JSON.parse(localStorage.getItem("babelgate.theme"));
  } catch {
    // The browser keeps nothing for this page.
  }
  document.documentElement.dataset.theme = theme ?? "auto";
}
