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

// Asks for the key of a client, and tries it.
function SignIn({ ended, onSignedIn }) {
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
      session.begin(key);
      onSignedIn(overview);
    });
  };
  return html`<main class="narrow">
    <h1>Console</h1>
    ${ended && html`<p class="message" role="status">${ended}</p>`}
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
    <span class="client">${overview.client.name}</span>
    <button type="button" class="small" onClick=${onSignOut}>Sign out</button>
  </header>`;
}

function Console() {
  const address = useAddress();
  const [overview, setOverview] = useState(null);
  const [ended, setEnded] = useState(null);
  const [problem, setProblem] = useState(null);
  const content = useRef();

  const signOut = (reason) => {
    session.end();
    setOverview(null);
    setProblem(null);
    setEnded(reason);
  };
  const show = (answer) => {
    setOverview(answer);
    setProblem(null);
  };
  // A key that is refused has ended the session.
  const load = () => get("/api/admin/overview").then(show, (failure) => failure.status !== 401 && setProblem(failure));

  useEffect(() => {
    const onRefused = () => session.key && signOut("Your session has ended: the service does not accept the key any more.");
    addEventListener("key-refused", onRefused);
    if (session.key) load();
    return () => removeEventListener("key-refused", onRefused);
  }, []);
  useEffect(() => {
    document.title = overview ? `${PAGES[address.name].title} · ${overview.hosts[0]}` : "Console";
    // A screen reader begins with the new page.
    content.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [address.name, address.argument, overview === null]);
  // A search replaces the form that had the focus.
  useEffect(keepFocus, [address]);

  if (!session.key || (!overview && problem?.status === 403)) {
    return html`<${SignIn} ended=${problem?.message ?? ended} onSignedIn=${show} />`;
  }
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
