// Displayed formulas that are wider than the page are made smaller, so that they can be read on a phone.
function fitFormulas() {
  for (const formula of document.querySelectorAll('mjx-container[display="true"]')) {
    formula.style.fontSize = "";
    const usual = parseFloat(getComputedStyle(formula).fontSize);
    const ratio = formula.clientWidth / formula.scrollWidth;
    if (ratio < 1) formula.style.fontSize = `${Math.max(0.45, ratio * 0.98) * usual}px`;
  }
}
window.addEventListener("load", () => {
  const rendered = window.MathJax && MathJax.startup ? MathJax.startup.promise : null;
  if (rendered) rendered.then(fitFormulas).then(() => window.addEventListener("resize", fitFormulas));
});
