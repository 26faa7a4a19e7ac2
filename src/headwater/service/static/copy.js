// Buttons that copy the text beside them: <div class="snippet"><pre>…</pre><button data-copy>…</button></div>.

document.addEventListener("click", async ({ target }) => {
  const button = target.closest("button[data-copy]");
  if (!button) return;
  const text = button.parentElement.querySelector("pre");
  let done = "Copied";
  try {
    await navigator.clipboard.writeText(text.textContent);
  } catch { // not allowed here (plain http on another machine): select it, so that the keyboard can
    const range = document.createRange();
    range.selectNodeContents(text);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    done = "Press Ctrl+C";
  }
  button.textContent = done;
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
});
