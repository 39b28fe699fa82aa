// The list of links: search, and creation of one link.

import { get, post, Problem } from "./api.mjs";
import { Destination, Labels, readLabels, State, stateNames, Tags } from "./fields.mjs";
import { Check, Copy, Failure, Field, formatNumber, html, Loading, Time, useAction, useEffect, useRef, useState } from "./view.mjs";

const PAGE = 50;
// Pages that a search asks for without a result before it asks its user. A page may be empty although more links match.
const EMPTY_PAGES = 20;

// The parameters of a search by what people look for.
const SEARCHES = {
  code: "Code begins with",
  title: "Words of the title",
  tag: "Tag",
  host: "Host of the destination",
  created_by: "Created by",
};

export const mayManageAll = ({ client }) => client.scopes.some((scope) => scope === "links:all" || scope === "admin");

// Loads the links of a search, page by page. Returns `{links, next, isLoading, problem, showMore, reload}`; `next` is null on the
// last page. A search that another one has replaced ends without a result.
function useLinks(search) {
  const name = JSON.stringify(search);
  const nothing = { name, links: [], next: null, isLoading: true };
  const [state, setState] = useState(nothing);
  const round = useRef(0);
  const load = async (before, after) => {
    const mine = ++round.current;
    const set = (change) => mine === round.current && setState({ name, ...change });
    set({ links: before, next: after ?? null, isLoading: true });
    try {
      for (let page = 0; page < EMPTY_PAGES && mine === round.current; page++) {
        const { links, next } = await get("/api/admin/links", { ...search, limit: PAGE, after });
        after = next;
        if (links.length > 0 || !next) {
          set({ links: [...before, ...links], next, isLoading: false });
          return;
        }
      }
      set({ links: before, next: after, isLoading: false });
    } catch (problem) {
      set({ links: before, next: after ?? null, isLoading: false, problem });
    }
  };
  useEffect(() => {
    load([]);
    return () => {
      round.current += 1;
    };
  }, [name]);
  // The links of the search before are never shown for this one.
  const shown = state.name === name ? state : nothing;
  return { ...shown, showMore: () => load(shown.links, shown.next), reload: () => load([]) };
}

function Search({ overview, search, onRepeat }) {
  const all = mayManageAll(overview);
  const isMine = all && search.created_by === overview.client.name;
  const by = Object.keys(SEARCHES).find((name) => search[name] && !(isMine && name === "created_by")) ?? "code";
  const submit = (event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const mine = form.get("mine") ? { created_by: overview.client.name } : {};
    const asked = { [form.get("by")]: form.get("text").trim(), ...mine, state: form.get("state"), order: form.get("order") };
    const given = Object.entries(asked).filter(([, value]) => value);
    // The address has the search, so that it can be kept, and the browser's back leads to the search before.
    const address = `#/links?${new URLSearchParams(given)}`;
    if (location.hash === address) onRepeat();
    else location.hash = address;
  };
  const searches = Object.entries(SEARCHES).filter(([name]) => all || name !== "created_by");
  return html`<form class="search" role="search" onSubmit=${submit} key=${JSON.stringify(search)}>
    <${Field} label="Search by">${(attributes) => html`<select ...${attributes} name="by">
      ${searches.map(([name, label]) => html`<option key=${name} value=${name} selected=${name === by}>${label}</option>`)}
    </select>`}<//>
    <${Field} label="Text">${(attributes) => html`<input ...${attributes} name="text" type="search" defaultValue=${search[by] ?? ""} maxlength="200" />`}<//>
    <${Field} label="State">${(attributes) => html`<select ...${attributes} name="state">
      <option value="">Every state</option>
      ${stateNames.map(([name, label]) => html`<option key=${name} value=${name} selected=${name === search.state}>${label}</option>`)}
    </select>`}<//>
    <${Field} label="Order">${(attributes) => html`<select ...${attributes} name="order">
      <option value="newest">Newest first</option>
      <option value="oldest" selected=${search.order === "oldest"}>Oldest first</option>
    </select>`}<//>
    ${all && html`<${Check} label="Only mine" name="mine" defaultChecked=${isMine} />`}
    <button class="primary">Search</button>
  </form>`;
}

function Row({ link }) {
  return html`<tr>
    <td data-label="Code"><span><a href=${`#/links/${link.code}`}>${link.code}</a> <${Copy} text=${link.short_url} /></span></td>
    <td data-label="Destination" class="wide">
      ${link.title && html`<strong>${link.title}</strong><br />`}
      <${Destination} url=${link.url} host=${link.host} />
      ${link.tags.length > 0 && html`<br /><${Tags} tags=${link.tags} />`}
    </td>
    <td data-label="Clicks" class="number">${link.clicks ? formatNumber(link.clicks.people) : "–"}</td>
    <td data-label="Created"><span><${Time} at=${link.created_at} />${link.created_by && html`<br /><span class="quiet">${link.created_by}</span>`}</span></td>
    <td data-label="State"><${State} state=${link.state} /></td>
  </tr>`;
}

function Create({ overview, onCreated }) {
  const { busy, problem, run } = useAction();
  const [created, setCreated] = useState(null);
  const details = useRef();
  const send = async (event) => {
    event.preventDefault();
    const form = event.currentTarget;
    const data = new FormData(form);
    setCreated(null);
    const isDone = await run(async () => {
      const link = {
        url: data.get("url").trim(),
        code: data.get("code").trim() || undefined,
        host: data.get("host") ?? undefined,
        template: data.has("template") || undefined,
        ...readLabels(data),
      };
      const { results } = await post("/api/admin/links", { links: [link] });
      if (!results[0].link) throw Problem.of(results[0].status, results[0].problem);
      setCreated(results[0].link);
      form.reset();
      form.elements.url.focus();
      onCreated();
    });
    // The invalid field may be among them.
    if (!isDone) details.current.open = true;
  };
  const rule = (name) => problem?.fields?.[name] ?? (name === "code" && problem?.type === "code-taken" ? "is taken by another link" : undefined);
  return html`<form class="create card" onSubmit=${send} aria-label="New link">
    <div class="row">
      <${Field} label="Destination" problem=${rule("url")}>${(attributes) => html`<input ...${attributes} name="url" type="url" required maxlength="2048" placeholder="https://" autocomplete="off" />`}<//>
      <${Field} label="Code" problem=${rule("code")}>${(attributes) => html`<input ...${attributes} name="code" maxlength="64" pattern="[A-Za-z0-9_\\-]+" title="Letters, digits, - and _" placeholder="random" autocomplete="off" spellcheck="false" />`}<//>
      <button class="primary" disabled=${busy}>Shorten</button>
    </div>
    <details ref=${details}>
      <summary>Expiry, title, tags and more</summary>
      <div class="pairs"><${Labels} problem=${problem} /></div>
      ${overview.hosts.length > 1 && html`<${Field} label="Host" hint="Every link works on each host." problem=${rule("host")}>${(attributes) => html`<select ...${attributes} name="host">
        ${overview.hosts.map((host) => html`<option key=${host}>${host}</option>`)}
      </select>`}<//>`}
      <${Check} label="The destination is a template: {1} and {path} stand for what follows the code" name="template" />
    </details>
    <${Failure} problem=${problem} fields=${["url", "code", "title", "tags", "expires_at", "note", "host"]} />
    ${created && html`<p class="message good" role="status">
      <a href=${`#/links/${created.code}`}>${created.short_url}</a> <${Copy} text=${created.short_url} />
    </p>`}
  </form>`;
}

export function LinksPage({ overview, address }) {
  const search = Object.fromEntries(address.parameters);
  const { links, next, isLoading, problem, showMore, reload } = useLinks({ order: "newest", ...search });
  const isSearch = Object.keys(search).some((name) => name !== "order");
  return html`
    <h1>Links</h1>
    <${Create} overview=${overview} onCreated=${reload} />
    <${Search} overview=${overview} search=${search} onRepeat=${reload} />
    <${Failure} problem=${problem} />
    ${links.length > 0 && html`<table class="links">
      <caption class="hidden">Links</caption>
      <thead><tr><th>Code</th><th>Destination</th><th class="number">Clicks</th><th>Created</th><th>State</th></tr></thead>
      <tbody>${links.map((link) => html`<${Row} key=${link.code} link=${link} />`)}</tbody>
    </table>`}
    ${isLoading && html`<${Loading} />`}
    ${!isLoading && !problem && links.length === 0 && !next && html`<p class="quiet" role="status">${isSearch ? "No link matches." : "There is no link yet."}</p>`}
    ${!isLoading && next && html`<button type="button" onClick=${showMore}>${links.length > 0 ? "More links" : "Search further"}</button>`}
  `;
}
