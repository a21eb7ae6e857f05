// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: onprem.kube_scheduling contributors
// Draws the diagrams of a page. mermaid.tiny.js has 3 MB, so only pages with diagrams load it. Without it the text of the diagram stays.
const diagrams = document.querySelectorAll("pre.mermaid");
if (diagrams.length) {
  const script = document.createElement("script");
  script.src = new URL("mermaid.tiny.js", document.currentScript.src).href;
  script.onload = async () => {
    mermaid.initialize({ startOnLoad: false, theme: "neutral" });
    await mermaid.run({ nodes: diagrams });
    document.body.dataset.diagrams = "drawn";
  };
  document.head.append(script);
}
