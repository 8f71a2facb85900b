// Puts the page together: the token, the connection, and the last picture.

import { news, showDecisions, showQueue, showTransactions } from "./activity.js";
import { byId, reachScrolls, setText, show } from "./dom.js";
import { follow } from "./feed.js";
import { showHeadline } from "./headline.js";
import { openJob, prepareJobs, showJobs } from "./jobs.js";
import { useToken } from "./log.js";
import { prepareNodes, showNodes } from "./nodes.js";
import { showSummary } from "./summary.js";
import { setNow, startTime, stopTime } from "./time.js";

const KEY = "specon-token";
const filter = new Set();
let last = null;

function draw() {
  if (!last) return;
  showHeadline(last);
  showSummary(last, filter, draw);
  showNodes(last);
  showJobs(last, filter);
  showTransactions(last);
  showQueue(last);
  showDecisions(last);
  reachScrolls();
}

function banner(text) {
  show(byId("banner"), Boolean(text));
  setText(byId("banner"), text);
}

function connection(state, text) {
  byId("connection").dataset.state = state;
  setText(byId("connection"), text);
}

function take(picture) {
  setText(byId("manager"), picture.manager);
  if (picture.standby) {
    banner("This manager is a standby: another one leads, or is about to. Open the page of the pod with the label specon.io/leader=true.");
    return;
  }
  startTime();
  setNow(picture.now);
  show(byId("content"), true);
  show(byId("login"), false);
  setText(byId("policy"), `policy ${picture.policy}`);
  banner(picture.paused ? `Paused: nothing new is ordered${picture.paused.reason ? ` (${picture.paused.reason})` : ""}. Moves in flight go on to their end.` : "");
  if (last) {
    const said = news(last, picture);
    if (said) setText(byId("said"), said);
  }
  const moving = picture.counts.moves_in_flight;
  document.title = moving ? `specon: ${moving} moving` : "specon";
  last = picture;
  draw();
}

function watch(token) {
  useToken(token);
  connection("connecting", "connecting");
  show(byId("login"), false);
  follow(token, {
    view: take,
    state: connection,
    refused: (text) => {
      forget();
      last = null;
      show(byId("content"), false);
      ask(`The manager says: ${text}.`);
    },
    end: () => {
      connection("over", "ended");
      stopTime();
      banner("The manager has ended. This is its last picture; load the page again once one runs here.");
    },
  });
}

function ask(problem) {
  connection("asking", "not connected");
  show(byId("login"), true);
  setText(byId("login-problem"), problem);
  byId("token").focus();
}

function given() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found) {
    // Out of the address bar, the history and every screenshot.
    history.replaceState(null, "", location.pathname);
    keep(found);
    return found;
  }
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function keep(token) {
  try {
    sessionStorage.setItem(KEY, token);
  } catch {
    // then until the page is loaded again
  }
}

function forget() {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // nothing was kept
  }
}

byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = byId("token").value.trim();
  byId("token").value = "";
  if (!/^[\x21-\x7e]+$/.test(token)) {
    ask("A token has no spaces, and letters of ASCII only.");
    return;
  }
  keep(token);
  watch(token);
});
byId("refused").addEventListener("change", draw);
prepareJobs(draw);
prepareNodes(openJob);
addEventListener("resize", reachScrolls);
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) location.reload();
});

const token = given();
if (token) watch(token);
else ask("");
