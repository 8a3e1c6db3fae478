// Before anything is drawn: the theme that was chosen here, if one was.
document.documentElement.dataset.theme = localStorage.getItem("babelgate.theme") ?? "auto";
