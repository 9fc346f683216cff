"use strict";
// The box above the grid: keep the cards whose key, class or number holds what is typed.
const box = document.getElementById("filter");
if (box) {
  const cards = Array.from(document.querySelectorAll(".card"));
  const count = document.getElementById("left");
  box.addEventListener("input", () => {
    const wanted = box.value.toLowerCase();
    let left = 0;
    for (const card of cards) {
      card.hidden = !card.dataset.words.includes(wanted);
      left += !card.hidden;
    }
    count.textContent = `${left} of ${cards.length}`;
  });
}
// Arrow keys turn the live server's pages.
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select") || event.altKey || event.ctrlKey || event.metaKey) return;
  const rel = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
  const link = rel && document.querySelector(`a[rel=${rel}]`);
  if (link) location.href = link.href;
});
