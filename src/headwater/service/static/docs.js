// Finding an operation by a word.

import "./copy.js";

const box = document.getElementById("find");

function find() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const item of document.querySelectorAll("[data-find]")) item.hidden = !words.every((word) => item.dataset.find.includes(word));
  for (const group of document.querySelectorAll("[data-group]")) group.hidden = !group.querySelector("li:not([hidden])");
}

box.addEventListener("input", find);
