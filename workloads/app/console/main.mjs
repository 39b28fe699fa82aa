// The console: the session, the page that the address names, and the navigation.

import { get, Problem, request, session } from "./api.mjs";
import { Failure, Field, html, keepFocus, Loading, render, useAction, useEffect, useRef, useState } from "./view.mjs";
import { LinksPage } from "./links.mjs";
import { LinkPage } from "./link.mjs";
import { TransferPage } from "./transfer.mjs";
import { JobsPage } from "./jobs.mjs";
import { ServicePage } from "./service.mjs";
import { WebhooksPage } from "./webhooks.mjs";

// The pages, by the first segment of the address behind `#/`.
const PAGES = {
  links: { title: "Links", page: LinksPage },
  transfer: { title: "Import and export", page: TransferPage },
  jobs: { title: "Jobs", page: JobsPage },
  webhooks: { title: "Webhooks", page: WebhooksPage, scope: "admin" },
  service: { title: "Service", page: ServicePage },
};

// Reads the address: `#/links/<code>?<parameters>`. A code has no character that is encoded.
function readAddress() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, argument = ""] = path.split("/");
  return { name: Object.hasOwn(PAGES, name) ? name : "links", argument, parameters: new URLSearchParams(query) };
}

function useAddress() {
  const [address, setAddress] = useState(readAddress);
  useEffect(() => {
    const follow = () => setAddress(readAddress());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return address;
}

const REFUSALS = {
  401: "The service does not accept this key.",
  403: "This key may not manage links: it needs the scope links:own, links:all or admin.",
};
// A person whom a proxy has signed in, other than a client with a key, has a name that begins like this.
const PERSON = "user/";
const isPerson = ({ name }) => name.startsWith(PERSON);
const NO_GROUP = "You are signed in, but none of your groups may manage links: one of them needs the scope links:own, links:all or admin.";

// Asks for the key of a client, and tries it. Whoever was signed in by a proxy can go there again.
function SignIn({ ended, byProxy, onSignedIn }) {
  const { busy, problem, run } = useAction();
  const field = useRef();
  useEffect(() => field.current.focus(), []);
  const send = (event) => {
    event.preventDefault();
    const key = new FormData(event.currentTarget).get("key").trim();
    run(async () => {
      // A browser sends no other characters in a header.
      if (!/^[\x21-\x7e]+$/.test(key)) throw new Problem(REFUSALS[401]);
      const overview = await request("GET", "/api/admin/overview", { key }).catch((problem) => {
        throw new Problem(REFUSALS[problem.status] ?? problem.message);
      });
      // A proxy that has signed the person in lets a wrong key pass.
      if (isPerson(overview.client)) throw new Problem(REFUSALS[401]);
      session.begin(key);
      onSignedIn(overview);
    });
  };
  return html`<main class="narrow">
    <h1>Console</h1>
    ${ended && html`<p class="message" role="status">${ended}</p>`}
    ${byProxy && html`<div class="actions"><button type="button" onClick=${() => location.reload()}>Sign in again</button></div>`}
    <form onSubmit=${send}>
      <${Field} label="Key" hint="This tab keeps it until you sign out or close the tab.">
        ${(attributes) => html`<input ...${attributes} ref=${field} name="key" type="password" required autocomplete="off" spellcheck="false" />`}
      <//>
      <${Failure} problem=${problem} />
      <div class="actions"><button class="primary" disabled=${busy}>Sign in</button></div>
    </form>
  </main>`;
}

function Navigation({ current, overview, onSignOut }) {
  return html`<header>
    <a class="skip" href="#content" onClick=${(event) => {
      event.preventDefault();
      document.getElementById("content").focus();
    }}>Skip to the content</a>
    <span class="host">${overview.hosts[0]}</span>
    <nav aria-label="Pages">
      ${Object.entries(PAGES).filter(([, { scope }]) => !scope || overview.client.scopes.includes(scope)).map(
        ([name, { title }]) => html`<a key=${name} href=${`#/${name}`} aria-current=${name === current ? "page" : undefined}>${title}</a>`,
      )}
    </nav>
    <span class="client">${isPerson(overview.client) ? overview.client.name.slice(PERSON.length) : overview.client.name}</span>
    ${!isPerson(overview.client) && html`<button type="button" class="small" onClick=${onSignOut}>Sign out</button>`}
  </header>`;
}

function Console() {
  const address = useAddress();
  const [overview, setOverview] = useState(null);
  const [ended, setEnded] = useState(null);
  const [needsKey, setNeedsKey] = useState(false);
  const [problem, setProblem] = useState(null);
  const content = useRef();
  // True while a proxy has signed the person in, or had until the session ended.
  const byProxy = useRef(false);

  const signOut = (reason) => {
    session.end();
    setOverview(null);
    setProblem(null);
    setEnded(reason);
    setNeedsKey(true);
  };
  const show = (answer) => {
    byProxy.current = isPerson(answer.client);
    setOverview(answer);
    setProblem(null);
    setNeedsKey(false);
  };
  // Who is not signed in is asked for a key.
  const load = () =>
    get("/api/admin/overview").then(show, (failure) => {
      if (failure.status === 403) signOut(session.key ? REFUSALS[403] : NO_GROUP);
      else if (failure.status !== 401) setProblem(failure);
    });

  useEffect(() => {
    const onRefused = () => {
      if (session.key) signOut("Your session has ended: the service does not accept the key any more.");
      else signOut(byProxy.current ? "Your session has ended." : null);
    };
    addEventListener("not-signed-in", onRefused);
    load();
    return () => removeEventListener("not-signed-in", onRefused);
  }, []);
  useEffect(() => {
    document.title = overview ? `${PAGES[address.name].title} · ${overview.hosts[0]}` : "Console";
    // A screen reader begins with the new page.
    content.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [address.name, address.argument, overview === null]);
  // A search replaces the form that had the focus.
  useEffect(keepFocus, [address]);

  if (needsKey) return html`<${SignIn} ended=${ended} byProxy=${byProxy.current} onSignedIn=${show} />`;
  if (!overview) {
    const retry = () => {
      setProblem(null);
      load();
    };
    return html`<main class="narrow">
      ${problem ? html`<${Failure} problem=${problem} /><button type="button" onClick=${retry}>Try again</button>` : html`<${Loading} />`}
    </main>`;
  }
  const Page = address.name === "links" && address.argument ? LinkPage : PAGES[address.name].page;
  return html`
    <${Navigation} current=${address.name} overview=${overview} onSignOut=${() => signOut("You have signed out.")} />
    <main id="content" tabindex="-1" ref=${content}>
      <${Page} key=${`${address.name}/${address.argument}`} overview=${overview} address=${address} problem=${problem} onRefresh=${load} />
    </main>
  `;
}

render(html`<${Console} />`, document.body);
