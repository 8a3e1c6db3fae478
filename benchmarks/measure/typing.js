() => {
  // Notes when a key was pressed last and when the output was there.
  const given = document.getElementById("given"), output = document.getElementById("output");
  window.measured = { typed: 0, shown: 0 };
  given.addEventListener("input", () => (window.measured.typed = performance.now()));
  new MutationObserver(() => (window.measured.shown = performance.now()))
    .observe(output, { childList: true });
  // The page's own milliseconds, and those of the requests after the last key.
  window.readTimes = () => {
    const { typed, shown } = window.measured;
    const asked = performance.getEntriesByType("resource")
      .filter((entry) => entry.startTime >= typed && /identify|translate/.test(entry.name));
    const api = asked.reduce((all, entry) => all + entry.responseEnd - entry.startTime, 0);
    performance.clearResourceTimings();
    return [shown - typed - api, api];
  };
}
