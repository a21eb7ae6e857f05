// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: onprem.kube_scheduling contributors
//
// The report: reads the data of the page, and shows them as a map that can be searched and sorted. Texts become text nodes only, so that no
// name from a cluster is read as markup. Without this script the page shows the map as text.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const HOSTNAME = "kubernetes.io/hostname";
  const PAGE = 100; // rows that are shown at first, and more with each press of the button
  const FEW = 24; // with at most so many nodes the zones are open at first
  const MOST = 40; // nodes of a zone with a column of their own; the others share one
  const MOST_IN_ALL = 120; // such nodes of all open zones together
  const HEAT = 4;
  const BEFORE = "before", AFTER = "after", BOTH = "both";
  const PROBLEMS = "problems", ALL = "all";
  const byHost = data.topology_key === HOSTNAME;

  // --- elements ------------------------------------------------------------------------------------------------------

  function el(tag, properties, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties || {})) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value === true) made.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
    return made;
  }

  const pill = (text) => el("span", { class: `pill ${text.replaceAll(" ", "-")}` }, text);
  const number = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
  const change = (before, after, mark = "") => (before === after ? `${before}` : `${before} → ${mark}${after}`);
  const coded = (reason) => [reason.message, " ", reason.reason ? el("code", null, reason.reason) : null];

  // --- rows ----------------------------------------------------------------------------------------------------------

  const rows = data.workloads.map((workload, order) => {
    const last = workload.after || workload.before;
    const later = workload.mark ? { domains: workload.expected } : last;
    const counts = (one) => Object.values(one.domains);
    return {
      ...workload,
      order,
      last,
      later,
      id: [workload.kind, workload.namespace, workload.name].map(encoded).join("/"),
      search: `${workload.namespace}/${workload.name} ${workload.kind}`.toLowerCase(),
      fullestBefore: Math.max(0, ...counts(workload.before)),
      fullestAfter: Math.max(0, ...counts(later)),
      label: stateOf(workload, last),
    };
  });

  // Half of a surrogate pair has no encoding.
  function encoded(text) {
    return encodeURIComponent(text.replace(/\p{Surrogate}/gu, "?"));
  }

  function stateOf(workload, last) {
    const before = workload.before.verdict;
    return last.verdict && last.verdict !== before ? [before, last.verdict] : [before];
  }

  // --- zones and columns ---------------------------------------------------------------------------------------------

  const groups = new Map();
  for (const domain of data.domain_list) {
    const zone = byHost ? domain.zone : "";
    if (!groups.has(zone)) groups.set(zone, []);
    groups.get(zone).push(domain);
  }
  const hasZones = byHost && [...groups.keys()].some((zone) => zone !== "");

  const state = {
    when: data.seen_twice || data.has_expected ? BOTH : BEFORE,
    text: "",
    node: "",
    namespace: "",
    show: rows.some((row) => !row.unremarkable) ? PROBLEMS : ALL,
    sort: "order",
    descending: false,
    open: new Set(data.domain_list.length <= FEW || !hasZones ? groups.keys() : []),
    limit: PAGE,
    selected: "",
    printing: false,
  };

  const note = (domain) => (!domain.ready ? "not ready" : domain.schedulable ? "" : "cordoned");

  // The columns of the map: one for each closed zone, and one for each node of an open zone.
  function columnsFor(shown) {
    const columns = [];
    const most = Math.min(MOST, Math.max(1, Math.floor(MOST_IN_ALL / state.open.size)));
    for (const [zone, domains] of groups) {
      if (!state.open.has(zone)) {
        columns.push({ key: `zone ${zone}`, zone, label: number(domains.length, "node"), names: domains.map((one) => one.name), note: "" });
        continue;
      }
      const named = domains.length <= most + 1 ? new Set(domains) : fullest(domains, shown, most);
      for (const domain of domains.filter((one) => named.has(one))) {
        columns.push({ key: `node ${domain.name}`, zone, label: domain.name, names: [domain.name], note: note(domain), single: true });
      }
      const others = domains.filter((one) => !named.has(one)).map((one) => one.name);
      if (others.length) columns.push({ key: `others ${zone}`, zone, label: `${others.length} others`, names: others, note: "" });
    }
    return columns;
  }

  // The domains with most replicas of the shown workloads.
  function fullest(domains, shown, most) {
    const replicas = new Map();
    for (const row of shown) {
      for (const one of [row.before, row.later]) {
        for (const [name, count] of Object.entries(one.domains)) replicas.set(name, (replicas.get(name) || 0) + count);
      }
    }
    const wanted = state.node.toLowerCase();
    const rank = (one) => (wanted && one.name.toLowerCase().includes(wanted) ? 1e9 : 0) + (replicas.get(one.name) || 0);
    return new Set([...domains].sort((a, b) => rank(b) - rank(a)).slice(0, most));
  }

  function indexOf(columns) {
    const found = new Map();
    columns.forEach((column, place) => column.names.forEach((name) => found.set(name, place)));
    return found;
  }

  // The replicas of one observation by column. Undefined means that the workload cannot use the column.
  function cellsOf(observation, places) {
    const cells = [];
    for (const [name, count] of Object.entries(observation.domains)) {
      const place = places.get(name);
      if (place !== undefined) cells[place] = (cells[place] || 0) + count;
    }
    return cells;
  }

  // --- filter and order ----------------------------------------------------------------------------------------------

  const isOn = (row, text) =>
    [row.before, row.later].some((one) => Object.entries(one.domains).some(([name, count]) => count && name.toLowerCase().includes(text)));

  function matches(row) {
    const { text, node, namespace, show } = state;
    if (namespace && row.namespace !== namespace) return false;
    if (show === PROBLEMS ? row.unremarkable : show !== ALL && row.before.verdict !== show && row.last.verdict !== show) return false;
    if (text && !text.toLowerCase().split(/\s+/).every((word) => row.search.includes(word))) return false;
    return !node || isOn(row, node.toLowerCase());
  }

  const now = (row) => (state.when === BEFORE ? row.before : row.last);
  const pods = (row) => (state.when === BEFORE ? row.before : row.later); // as ``now``, with the expected replicas

  const KEYS = {
    order: (row) => row.order,
    workload: (row) => `${row.namespace}/${row.name}`,
    replicas: (row) => row.replicas,
    fullest: (row) => (state.when === BEFORE ? row.fullestBefore : row.fullestAfter),
    verdict: (row) => row.label.join(" "),
  };

  function sorted(found, columns) {
    const column = columns.find((one) => one.key === state.sort);
    const names = column ? new Set(column.names) : null;
    const count = (row) => Object.entries(pods(row).domains).reduce((sum, [name, value]) => sum + (names.has(name) ? value : 0), 0);
    const key = column ? count : KEYS[state.sort] || KEYS.order;
    const keyed = found.map((row) => [key(row), row]);
    const sign = state.descending ? -1 : 1;
    const compare = new Intl.Collator("en", { numeric: true }).compare;
    keyed.sort(([a, first], [b, second]) => sign * (typeof a === "string" ? compare(a, b) : a - b) || first.order - second.order);
    return keyed.map(([, row]) => row);
  }

  function sortBy(key, descendingFirst) {
    if (state.sort !== key) [state.sort, state.descending] = [key, descendingFirst];
    else if (state.descending === descendingFirst) state.descending = !descendingFirst;
    else [state.sort, state.descending] = ["order", false]; // the third press restores the order by severity
    draw(`sort ${key}`);
  }

  // --- the map -------------------------------------------------------------------------------------------------------

  const sortOf = (key) => (state.sort === key ? (state.descending ? "descending" : "ascending") : null);

  function sortHeader(key, label, properties, descendingFirst = true, hint = "") {
    const button = el("button", { type: "button", "data-key": `sort ${key}`, title: hint || null, onclick: () => sortBy(key, descendingFirst) }, label);
    return el("th", { scope: "col", "aria-sort": sortOf(key), ...properties }, button);
  }

  function heading(columns) {
    const head = el("thead");
    if (hasZones) {
      const line = el("tr", null, el("td", { class: "name" }), el("td"));
      for (const [zone, domains] of groups) {
        const span = columns.filter((column) => column.zone === zone).length;
        const open = state.open.has(zone);
        const button = el(
          "button",
          {
            type: "button",
            "aria-expanded": `${open}`,
            "data-key": `zone ${zone}`,
            onclick: () => {
              open ? state.open.delete(zone) : state.open.add(zone);
              draw(`zone ${zone}`);
            },
          },
          zone || "no zone",
          el("span", { class: "hidden" }, `, ${number(domains.length, "node")}`),
        );
        line.append(el("th", { scope: "colgroup", colspan: span }, button));
      }
      line.append(el("td"), el("td"), el("td"));
      head.append(line);
    }
    const line = el("tr", null, sortHeader("workload", "workload", { class: "name" }, false), sortHeader("replicas", "replicas", null));
    for (const column of columns) {
      const text = column.label + (column.note ? ` (${column.note})` : "");
      const where = column.single ? "" : el("span", { class: "hidden" }, ` of ${column.zone || "no zone"}`);
      const classes = `node${column.note ? " closed" : ""}`;
      line.append(sortHeader(column.key, el("span", null, text, where), { class: classes }, true, `${text}: sort by replicas`));
    }
    line.append(
      sortHeader("fullest", "fullest", { title: `replicas in the fullest ${byHost ? "node" : "domain"}` }),
      sortHeader("verdict", "verdict", { class: "left" }, false),
      el("th", { scope: "col", class: "left" }, data.checks_only ? "reason" : "what happened and why"),
    );
    head.append(line);
    return head;
  }

  function cell(before, after, mark, placed, allListed) {
    const [first, last] = state.when === BEFORE ? [before, before] : state.when === AFTER ? [after, after] : [before, after];
    const heat = placed ? Math.ceil(((last || 0) * HEAT) / placed) : 0;
    const differs = state.when !== BEFORE && (before || 0) !== (after || 0);
    const classes = `cell h${heat}${differs ? " changed" : ""}`;
    if ((first || 0) !== (last || 0)) return el("td", { class: classes }, `${first || 0}→${mark}${last || 0}`);
    if (last) return el("td", { class: classes }, `${state.when === AFTER ? mark : ""}${last}`);
    return el("td", { class: last === 0 || !allListed ? `${classes} open` : classes });
  }

  function bodyRow(row, columns, places) {
    const before = cellsOf(row.before, places), after = cellsOf(row.later, places);
    const placed = Object.values(pods(row).domains).reduce((sum, count) => sum + count, 0);
    const selected = row.id === state.selected;
    const link = el("a", { href: `#${row.id}` }, row.name);
    const line = el(
      "tr",
      { class: `${now(row).verdict}${selected ? " selected" : ""}`, "data-id": row.id, "aria-current": selected ? "true" : null },
      el("th", { scope: "row", class: "name" }, link, el("span", null, `${row.namespace} · ${row.kind}`)),
      el("td", null, `${row.replicas}`),
    );
    for (let place = 0; place < columns.length; place += 1) line.append(cell(before[place], after[place], row.mark, placed, row.before.all_listed));
    const [from, to] = state.when === BOTH ? [row.fullestBefore, row.fullestAfter] : [KEYS.fullest(row), KEYS.fullest(row)];
    const verdicts = state.when === BOTH ? row.label : [now(row).verdict];
    const pills = verdicts.filter(Boolean).flatMap((verdict, place) => (place ? [" → ", pill(verdict)] : [pill(verdict)]));
    line.append(el("td", null, change(from, to, row.mark)), el("td", { class: "left" }, ...pills), explanation(row, selected));
    return line;
  }

  // The patch as JSON of ASCII signs, so that it has no sign that looks like another one. It is the same text as in patch_text.py.
  function patchText(patch) {
    return JSON.stringify(patch, null, 2).replace(/[`@<>&]|[^\n -~]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
  }

  function patch(row, advice) {
    if (!advice.patch || !Object.keys(advice.patch).length) return [];
    const name = ` of ${row.kind} ${row.namespace}/${row.name}`;
    const of = el("span", { class: "hidden" }, name);
    const text = el("pre", { class: "patch", role: "group", "aria-label": `Patch${name}`, tabindex: "0" }, patchText(advice.patch));
    const told = el("span", { role: "status", class: "told" });
    const button = el("button", { type: "button", class: "copy", onclick: () => copy(text, told) }, "Copy the patch", of);
    return [el("div", { class: "copying" }, button, " ", told), text];
  }

  // Selects the text, and copies it. Some pages may not write to the clipboard, such as those in a frame of a job server.
  async function copy(text, told) {
    const range = document.createRange();
    range.selectNodeContents(text);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    told.textContent = "";
    let copied = false;
    try {
      await navigator.clipboard.writeText(text.textContent);
      copied = true;
    } catch {
      copied = document.execCommand("copy");
    }
    told.textContent = copied ? "Copied." : "The browser does not allow it. The patch is selected; press Ctrl+C.";
  }

  function explanation(row, selected) {
    const found = el("td", { class: "why" });
    if (row.action) {
      const more = [row.evicted ? number(row.evicted, "pod") : "", row.outcome && row.duration ? `in ${row.duration} s` : ""].filter(Boolean);
      found.append(el("div", null, pill(row.action), " ", row.outcome ? pill(row.outcome) : null, more.length ? ` ${more.join(" ")}` : null));
    }
    if (row.message) found.append(el("div", null, ...coded(row)));
    if (row.advice.length) {
      const items = row.advice.map((one) => el("li", null, ...coded(one), ...patch(row, one)));
      const more = el("span", { class: "hidden" }, ` for ${row.name}`);
      found.append(el("details", { open: selected || state.printing }, el("summary", null, "Advice", more), el("ul", null, ...items)));
    }
    const list = el("ul");
    const fill = () => {
      if (list.childElementCount) return;
      const names = data.domain_list.map((one) => one.name).filter((name) => row.before.domains[name] || row.later.domains[name]);
      list.append(...names.map((name) => el("li", null, `${name}: ${change(row.before.domains[name] || 0, row.later.domains[name] || 0, row.mark)}`)));
    };
    if (selected) fill();
    found.append(el("details", { open: selected, ontoggle: fill }, el("summary", null, byHost ? "Nodes" : "Domains", el("span", { class: "hidden" }, ` of ${row.name}`)), list));
    return found;
  }

  function sums(found, columns, places) {
    const totals = columns.map(() => [0, 0]);
    for (const row of found) {
      cellsOf(row.before, places).forEach((count, place) => (totals[place][0] += count));
      cellsOf(row.later, places).forEach((count, place) => (totals[place][1] += count));
    }
    const mark = found.some((row) => row.mark) ? "~" : "";
    const replicas = found.reduce((sum, row) => sum + row.replicas, 0);
    const shown = totals.map(([before, after]) => el("td", null, state.when === BOTH ? change(before, after, mark) : `${state.when === BEFORE ? before : mark + after}`));
    const line = el("tr", null, el("th", { scope: "row", class: "name" }, `all ${number(found.length, "workload")}`), el("td", null, `${replicas}`), ...shown);
    line.append(el("td"), el("td"), el("td"));
    return el("tfoot", null, line);
  }

  const unit = hasZones ? "node or zone" : byHost ? "node" : data.topology_key;
  const status = el("p", { role: "status", class: "dim" });
  const legend = el("p", { class: "dim" });
  const holder = el("div", { class: "scroll", role: "region", "aria-label": "Map of replicas", tabindex: "0" });
  const more = el("p", { class: "more" });

  // Draws the map. The control with the key keeps the focus, although it is made again.
  function draw(focus = "") {
    let found = rows.filter(matches);
    const columns = columnsFor(found), places = indexOf(columns);
    found = sorted(found, columns);
    const chosen = found.findIndex((row) => row.id === state.selected);
    if (chosen >= state.limit) state.limit = Math.ceil((chosen + 1) / PAGE) * PAGE;
    const shown = found.slice(0, state.limit);
    const caption = el("caption", { class: "hidden" }, `Replicas of each workload by ${unit}`);
    const body = el("tbody", null, ...shown.map((row) => bodyRow(row, columns, places)));
    const upright = columns.length > 10 && columns.some((column) => column.label.length > 6);
    const top = holder.scrollTop, left = holder.scrollLeft;
    holder.replaceChildren(el("table", { class: upright ? "upright" : null }, caption, heading(columns), body, sums(found, columns, places)));
    [holder.scrollTop, holder.scrollLeft] = [top, left];
    const expected = data.has_expected && state.when !== BEFORE ? " '~': expected after the action." : "";
    const marks = expected + (state.when === BOTH ? " A line below a number marks a change." : "");
    legend.textContent = `Replicas by ${unit}. '·': none, although open to the workload; empty: closed to it.${marks}`;
    status.textContent = `${found.length.toLocaleString("en")} of ${number(rows.length, "workload")} match`;
    more.replaceChildren();
    if (found.length > shown.length) {
      const next = Math.min(PAGE, found.length - shown.length);
      const press = () => {
        state.limit += PAGE;
        draw("more");
      };
      more.append(el("button", { type: "button", "data-key": "more", onclick: press }, `Show ${next} more of ${found.length - shown.length}`));
    }
    if (focus) [...document.querySelectorAll("[data-key]")].find((one) => one.dataset.key === focus)?.focus();
  }

  // --- controls ------------------------------------------------------------------------------------------------------

  function labelled(id, text, control) {
    control.id = id;
    return el("div", null, el("label", { for: id }, text), control);
  }

  function onChange(change) {
    return (event) => {
      change(event.target.value);
      state.limit = PAGE;
      state.selected = "";
      draw();
    };
  }

  function controls() {
    const find = el("input", { type: "search", oninput: onChange((value) => (state.text = value.trim())) });
    const node = el("input", { type: "search", oninput: onChange((value) => (state.node = value.trim())) });
    const show = el("select", { onchange: onChange((value) => (state.show = value)) });
    const namespace = el("select", { onchange: onChange((value) => (state.namespace = value)) }, el("option", { value: "" }, "all"));
    const verdicts = new Map();
    for (const row of rows) for (const verdict of new Set(row.label)) verdicts.set(verdict, (verdicts.get(verdict) || 0) + 1);
    const problems = rows.filter((row) => !row.unremarkable).length;
    show.append(el("option", { value: ALL }, `all (${rows.length})`));
    if (problems) show.append(el("option", { value: PROBLEMS }, `with problems or changes (${problems})`));
    for (const [verdict, count] of verdicts) show.append(el("option", { value: verdict }, `${verdict} (${count})`));
    for (const name of [...new Set(rows.map((row) => row.namespace))].sort()) namespace.append(el("option", { value: name }, name));
    const set = () => {
      [find.value, node.value, show.value, namespace.value] = [state.text, state.node, state.show, state.namespace];
    };
    set();
    const form = el(
      "form",
      { class: "controls", role: "search", "aria-label": "Workloads", onsubmit: (event) => event.preventDefault() },
      labelled("find", "Workload", find),
      labelled("show", "Show", show),
      labelled("namespace", "Namespace", namespace),
      labelled("node", byHost ? "On node" : "In domain", node),
      data.seen_twice || data.has_expected ? times() : null,
      hasZones ? el("div", null, zoneButton(true), " ", zoneButton(false)) : null,
    );
    return { form, set };
  }

  function times() {
    const choice = (value, label) => {
      const press = () => {
        state.when = value;
        draw();
      };
      return el("label", null, el("input", { type: "radio", name: "when", value, checked: state.when === value, onchange: press }), label);
    };
    return el("fieldset", null, el("legend", null, "State"), choice(BEFORE, "before"), choice(AFTER, data.seen_twice ? "after" : "expected"), choice(BOTH, "both"));
  }

  function zoneButton(opens) {
    const press = () => {
      state.open = new Set(opens ? groups.keys() : []);
      draw();
    };
    return el("button", { type: "button", onclick: press }, opens ? "Open all zones" : "Close all zones");
  }

  // --- the page ------------------------------------------------------------------------------------------------------

  function banners() {
    const found = [];
    if (data.error) found.push(el("p", { class: "banner bad", role: "alert" }, el("strong", null, "Error. "), data.error));
    if (data.reason) {
      found.push(el("p", { class: "banner" }, el("strong", null, "No workload was checked, and nothing was restarted. "), ...coded(data)));
    }
    if (data.lost_nodes.length) {
      found.push(el("p", { class: "banner bad" }, el("strong", null, "Not ready at the end of the run: "), data.lost_nodes.join(", ")));
    }
    if (data.plan) found.push(el("p", { class: "banner plan" }, el("strong", null, "Plan. "), "Nothing was restarted. This is what a run would do."));
    return found;
  }

  function tiles() {
    const { totals, summary } = data;
    if (data.reason || data.nodes.total === undefined) return null;
    const tile = (value, title, mood = "") => el("div", { class: `tile ${mood}` }, el("dt", null, title), el("dd", null, `${value}`));
    const found = [
      tile(totals.checked, "workloads checked"),
      tile(change(totals.collapsed_before, totals.collapsed_after), "collapsed", totals.collapsed_after ? "bad" : "good"),
      tile(change(totals.skewed_before, totals.skewed_after), "skewed", totals.skewed_after ? "bad" : ""),
    ];
    if (data.checks_only) {
      found.push(tile(totals.restartable, "a restart helps"), tile(summary.healthy || 0, "healthy"), tile(summary.skipped || 0, "skipped"));
      return el("dl", { class: "tiles" }, ...found);
    }
    if (data.plan) {
      const planned = Object.keys(totals).filter((name) => name.startsWith("would_"));
      found.push(...planned.filter((name, place) => !place || totals[name]).map((name) => tile(totals[name], name)));
    } else {
      found.push(tile(totals.restarted, "restarted"));
      if (totals.evicted) found.push(tile(totals.evicted, "evicted from"));
    }
    if (!data.plan) found.push(tile(totals.improved, "improved", totals.improved ? "good" : ""));
    found.push(tile(totals.refused, "refused"), tile(totals.failed, "failed", totals.failed ? "bad" : ""));
    return el("dl", { class: "tiles" }, ...found);
  }

  function section(title, items) {
    return items.length ? el("section", null, el("h2", null, title), el("ul", { class: "plain" }, ...items)) : null;
  }

  const { form, set } = controls();
  const named = (names, reason) => el("li", null, el("strong", null, names), ": ", ...coded(reason));
  const map = rows.length ? el("section", null, el("h2", null, "Where the replicas are"), form, status, legend, holder, more) : null;
  document.getElementById("report").replaceChildren(
    ...[
      ...banners(),
      tiles(),
      map,
      section("Namespaces left out", data.skipped_namespaces.map((one) => named(one.namespaces.join(", "), one))),
      section("Objects that cannot be decoded", data.skipped_objects.map((one) => named(one.name, { message: one.message }))),
    ].filter(Boolean),
  );

  // Shows the workload that the address names, although a filter may hide it.
  function reveal() {
    const id = location.hash.slice(1);
    const row = rows.find((one) => one.id === id);
    if (!row) return;
    if (!matches(row)) [state.text, state.node, state.namespace, state.show] = ["", "", "", ALL];
    state.selected = id;
    set();
    draw();
    const line = holder.querySelector("tr.selected");
    line.scrollIntoView({ block: "center" });
    line.querySelector("a").focus({ preventScroll: true });
  }

  let limit = PAGE;
  addEventListener("beforeprint", () => {
    [limit, state.limit, state.printing] = [state.limit, Infinity, true];
    draw();
  });
  addEventListener("afterprint", () => {
    [state.limit, state.printing] = [limit, false];
    draw();
  });
  addEventListener("hashchange", reveal);
  if (rows.length) {
    draw();
    reveal();
  }
})();
