// An address /login#key=hw_… signs in by itself. What is after the # never reaches the server's log; here it leaves the history.

const found = location.hash.match(/^#key=([\w-]+)$/);
if (found) {
  history.replaceState(null, "", location.pathname + location.search);
  document.getElementById("key").value = found[1];
  document.getElementById("login").requestSubmit();
}
