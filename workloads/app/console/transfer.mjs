// Many links at once: creation from a table, import and export.

import { get, patient, post, Problem, wasRefused } from "./api.mjs";
import { readTags } from "./fields.mjs";
import { mayManageAll } from "./links.mjs";
import { csvFormatRows, csvParseRows } from "./vendor/d3-dsv.mjs";
import { Check, count, Failure, Field, formatNumber, html, useAction, useEffect, useRef, useState } from "./view.mjs";

// What one request takes.
const MOST_CREATED = 100;
const MOST_IMPORTED = 1000;
const MOST_BYTES = 128 * 1024;
// The room for what stands around the links of a request.
const FRAME_BYTES = 64;
// The largest file that is kept in the memory of the page.
const MOST_EXPORTED_BYTES = 512 * 1024 * 1024;
// The rows that are shown of those with a fault.
const SHOWN = 100;
const COLUMNS = ["url", "code", "title", "tags", "expires_at", "note", "host"];
// The time for a browser to begin with a file before its address is gone.
const SAVE_MS = 60_000;

const encoder = new TextEncoder();

// Saves a file on the computer of the user.
function save(parts, name, type) {
  const address = URL.createObjectURL(new Blob(parts, { type }));
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), SAVE_MS);
}

// Yields the lines of a file, each as `{number, text}`, without reading the whole file at once.
async function* linesOf(file) {
  const reader = file.stream().pipeThrough(new TextDecoderStream("utf-8", { fatal: true })).getReader();
  let number = 0;
  let rest = "";
  for (let isLast = false; !isLast; ) {
    const { done, value = "" } = await reader.read();
    isLast = done;
    const lines = (rest + value).split(/\r?\n/);
    rest = isLast ? "" : lines.pop();
    for (const text of lines) if (text.trim() || !isLast) yield { number: ++number, text };
  }
}

// Yields items, each as `{number, text}`, in groups that one request takes. An item that is too long for a request is passed to
// `onFault`.
async function* groupsOf(items, most, onFault) {
  let group = [];
  let bytes = FRAME_BYTES;
  for await (const item of items) {
    const size = encoder.encode(item.text).length + 1;
    if (!item.text.trim()) continue;
    if (size + FRAME_BYTES > MOST_BYTES) {
      onFault(item.number, `is longer than the ${MOST_BYTES / 1024} KiB of a request`);
      continue;
    }
    if (group.length === most || bytes + size > MOST_BYTES) {
      yield group;
      group = [];
      bytes = FRAME_BYTES;
    }
    group.push(item);
    bytes += size;
  }
  if (group.length > 0) yield group;
}

// Reads a table. Returns links as the API takes them, each as text with the number of its row.
function readTable(text, onFault) {
  const [header = [], ...rows] = csvParseRows(text.replace(/^\ufeff/, ""));
  const names = header.map((name) => name.trim().toLowerCase());
  while (names.at(-1) === "") names.pop();
  const unknown = names.find((name) => !COLUMNS.includes(name));
  if (!names.includes("url") || unknown !== undefined) {
    const fault = unknown === undefined ? 'has no column "url"' : `has the unknown column "${unknown}"`;
    throw new Problem(`The first row ${fault}. The columns are ${COLUMNS.join(", ")}, separated by commas.`);
  }
  return rows.flatMap((cells, place) => {
    const number = place + 2;
    if (cells.every((cell) => !cell.trim())) return [];
    if (cells.slice(names.length).some((cell) => cell.trim())) {
      onFault(number, "has more cells than the first row: put a cell with a comma in quotation marks");
      return [];
    }
    const given = names.map((name, column) => [name, cells[column]?.trim()]).filter(([, value]) => value);
    const link = Object.fromEntries(given);
    if (link.tags) link.tags = readTags(link.tags);
    return [{ number, text: JSON.stringify(link) }];
  });
}

async function textOf(file) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Problem("The file is not text in UTF-8: save it as “CSV UTF-8”.");
  }
}

// The result of long work so far: what was counted, by name, and the first faults.
class Tally {
  counts = {};
  faults = [];
  faultCount = 0;

  add(name, number = 1) {
    if (number > 0) this.counts[name] = (this.counts[name] ?? 0) + number;
  }

  fault(number, text) {
    this.faultCount += 1;
    if (this.faults.length < SHOWN) this.faults.push({ number, text });
  }
}

// Runs long work of several requests: shows its progress, and ends it before the next request when its user stops it or leaves the
// page. Returns `{busy, problem, tally, state, begin, stop}`; `begin` takes the work, a function from the tally, `proceed` and a
// signal. `proceed` shows the tally and returns false if the work has to end.
function useWork() {
  const { busy, problem, run } = useAction();
  const [tally, setTally] = useState(null);
  const [isStopped, setStopped] = useState(false);
  const controller = useRef(null);
  useEffect(() => () => controller.current?.abort(), []);
  useEffect(() => {
    if (!busy) return undefined;
    const warn = (event) => event.preventDefault();
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [busy]);
  const begin = (work) =>
    run(async () => {
      const counted = new Tally();
      const { signal } = (controller.current = new AbortController());
      // A copy, so that the page is drawn again.
      const show = () => setTally(Object.assign(new Tally(), counted));
      setStopped(false);
      show();
      try {
        await work(counted, () => {
          show();
          if (signal.aborted) setStopped(true);
          return !signal.aborted;
        }, signal);
      } finally {
        show();
      }
    });
  const state = busy ? "busy" : isStopped || problem ? "stopped" : "done";
  return { busy, problem, tally, state, begin, stop: () => controller.current.abort() };
}

const WORDS = { busy: "So far:", stopped: "Stopped after:" };

// The buttons and the progress of long work. `done` is the word for its end.
function Progress({ work, done, unit }) {
  const { tally, state, problem } = work;
  if (!tally) return null;
  const counts = Object.entries(tally.counts).map(([name, number]) => `${formatNumber(number)} ${name}`);
  const text = `${WORDS[state] ?? done} ${counts.join(", ") || "nothing"}`;
  return html`
    <${Failure} problem=${problem} />
    <p class=${`message ${state === "done" ? "good" : ""}`} role=${state === "busy" ? undefined : "status"}>${text}</p>
    ${state === "busy" && html`<p class="quiet">It ends when you leave this page.</p>`}
    ${tally.faultCount > 0 && html`<details open>
      <summary>${count(tally.faultCount, unit)} with a fault${tally.faultCount > SHOWN ? `, the first ${SHOWN} of them` : ""}</summary>
      <ul class="faults">${tally.faults.map(({ number, text }) => html`<li key=${number}>${unit} ${formatNumber(number)}: ${text}</li>`)}</ul>
    </details>`}
  `;
}

const Stop = ({ work }) => work.busy && html`<button type="button" onClick=${work.stop}>Stop</button>`;

function CreateMany() {
  const work = useWork();
  const created = useRef([]);
  const create = async (file, tally, proceed, signal) => {
    const refuse = (number, text) => {
      tally.add("refused");
      tally.fault(number, text);
    };
    for await (const group of groupsOf(readTable(await textOf(file), refuse), MOST_CREATED, refuse)) {
      if (!proceed()) return;
      let answer;
      try {
        // Links with random codes would be created twice, so only what was refused is repeated.
        answer = await patient(() => post("/api/admin/links", `{"links":[${group.map(({ text }) => text)}]}`), { repeat: wasRefused, signal });
      } catch (problem) {
        const [first, last] = [group[0].number, group.at(-1).number].map(formatNumber);
        throw new Problem(`Rows ${first} to ${last} may have been created: look for them before you repeat them. ${problem.message}`);
      }
      answer.results.forEach(({ status, link, problem }, place) => {
        const { number, text } = group[place];
        if (link) {
          tally.add("created");
          created.current.push([JSON.parse(text).url, link.short_url]);
        } else if (status === 503) {
          tally.add("unknown");
          tally.fault(number, `may have been created. ${Problem.of(status, problem).message}`);
        } else {
          refuse(number, Problem.of(status, problem).message);
        }
      });
    }
  };
  const send = (event) => {
    event.preventDefault();
    const file = new FormData(event.currentTarget).get("file");
    created.current = [["url", "short_url"]];
    work.begin((...given) => create(file, ...given));
  };
  const others = COLUMNS.slice(1).map((name, place) => html`${place > 0 && ", "}<code>${name}</code>`);
  return html`<section class="card">
    <h2>Create links from a table</h2>
    <p>A CSV file in UTF-8, with commas and a header. The column <code>url</code> is required; the others are ${others}. Tags are separated by commas, and a time has the form 2030-01-31T12:00:00Z.</p>
    <form class="row" onSubmit=${send}>
      <${Field} label="File">${(attributes) => html`<input ...${attributes} type="file" name="file" accept=".csv,text/csv" required />`}<//>
      <button class="primary" disabled=${work.busy}>Create</button>
      <${Stop} work=${work} />
    </form>
    <${Progress} work=${work} done="Done:" unit="row" />
    ${work.tally?.counts.created > 0 && !work.busy && html`<p><button type="button" onClick=${() => save([csvFormatRows(created.current)], "short-links.csv", "text/csv")}>Save the short links</button></p>`}
  </section>`;
}

function Import() {
  const work = useWork();
  const [wasTried, setTried] = useState(false);
  const importFile = async (file, isTrial, tally, proceed, signal) => {
    const refuse = (number, text) => {
      tally.add("invalid");
      tally.fault(number, text);
    };
    const path = `/api/admin/import/links${isTrial ? "?dry_run=true" : ""}`;
    for await (const group of groupsOf(linesOf(file), MOST_IMPORTED, refuse)) {
      if (!proceed()) return;
      const lines = group.map(({ text }) => text).join("\n");
      const answer = await patient(() => post(path, lines, "application/x-ndjson"), { signal });
      for (const name of ["created", "unchanged", "conflict", "invalid"]) tally.add(name, answer[name]);
      for (const { line, result, code, reason, errors = [] } of answer.results) {
        if (result !== "conflict" && result !== "invalid") continue;
        const rules = errors.map(({ field, reason }) => `${field} ${reason}`).join("; ");
        tally.fault(group[line - 1].number, `${code ?? ""} ${reason ?? rules}`.trim());
      }
    }
  };
  const send = (event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const isTrial = form.has("trial");
    setTried(isTrial);
    work.begin((...given) => importFile(form.get("file"), isTrial, ...given));
  };
  return html`<section class="card">
    <h2>Import</h2>
    <p>An export of this service, one JSON object on each line. Codes, creation times, takedowns and clicks are kept. A code that exists stays as it is, so an import can be repeated. <code>kubectl shortener import</code> reads the files of other shorteners.</p>
    <form class="row" onSubmit=${send}>
      <${Field} label="File">${(attributes) => html`<input ...${attributes} type="file" name="file" required />`}<//>
      <${Check} label="Only try it, and store nothing" name="trial" defaultChecked />
      <button class="primary" disabled=${work.busy}>Import</button>
      <${Stop} work=${work} />
    </form>
    <${Progress} work=${work} done=${wasTried ? "This would happen:" : "Done:"} unit="line" />
  </section>`;
}

function Export({ all }) {
  const work = useWork();
  const exportLinks = async (tally, proceed, signal) => {
    const pages = [];
    let after;
    let bytes = 0;
    while (proceed()) {
      const page = await patient(() => get("/api/admin/export/links", { after }), { signal });
      const lines = page.split("\n").filter(Boolean);
      if (lines.length === 0) {
        save(pages, "links.jsonl", "application/x-ndjson");
        return;
      }
      tally.add("links", lines.length);
      after = JSON.parse(lines.at(-1)).code;
      pages.push(new Blob([page]));
      bytes += pages.at(-1).size;
      if (bytes > MOST_EXPORTED_BYTES) throw new Problem("The export is too large for a browser: use kubectl shortener export.");
    }
  };
  return html`<section class="card">
    <h2>Export</h2>
    <p>${all ? "All links" : "Your links"} with everything that the service keeps of them, one JSON object on each line.</p>
    <div class="actions">
      <button type="button" class="primary" onClick=${() => work.begin(exportLinks)} disabled=${work.busy}>Export</button>
      <${Stop} work=${work} />
    </div>
    <${Progress} work=${work} done="Saved:" unit="line" />
  </section>`;
}

export function TransferPage({ overview }) {
  const all = mayManageAll(overview);
  return html`
    <h1>Import and export</h1>
    <${CreateMany} />
    ${all && html`<${Import} />`}
    <${Export} all=${all} />
  `;
}
