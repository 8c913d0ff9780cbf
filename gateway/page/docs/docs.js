// The page at /docs: every route of /openapi.json, read from this gateway and drawn without help from elsewhere.

import { draw, h } from "../dom.js";
import { home } from "../words.js";
import { fields, linkTo, nameOf, parameter, table, typeOf } from "./schema.js";

const main = document.getElementById("main");
const filter = document.getElementById("filter");

const openapi = await fetch(`${home}openapi.json`).then((answer) => answer.json()).catch(() => null);
const resolve = (part) => (part?.$ref ? part.$ref.slice(2).split("/").reduce((at, name) => at[name.replaceAll("~1", "/")], openapi) : part);

const operations = Object.entries(openapi?.paths ?? {}).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, told]) => ({ ...told, method: method.toUpperCase(), path })));

// `code` in a description is set apart.
const prose = (text = "") => text.split("`").map((part, i) => (i % 2 ? h("code", null, part) : part));

function curl({ method, path, requestBody, security = [] }) {
  const url = `${location.origin}${home}${path.slice(1)}`.replace(/{(\w+)}/g, (_, name) => `<${name}>`);
  const body = Object.values(requestBody?.content ?? {})[0]?.examples?.["1"]?.value;
  const key = security.length ? ` -H "Authorization: Bearer $API_KEY"` : "";
  const data = body ? ` -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'` : "";
  return `curl -s${method === "GET" ? "" : ` -X ${method}`}${key} '${url}'${data}`;
}

function responses(told) {
  return Object.entries(told).map(([status, ref]) => {
    const answer = resolve(ref);
    const content = Object.entries(answer.content ?? {});
    const types = content.map(([media, { schema, "x-itemSchema": item }]) =>
      h("div", null, h("code", null, item ? ["each event: ", typeOf(item.properties.data.contentSchema)] : typeOf(schema)), media === "application/json" ? "" : h("small", null, ` ${media}`)));
    const shown = status < 400 ? types : "";
    return h("tr", null, h("td", null, h("code", { class: status < 400 ? "tone-done" : "tone-fail" }, status)), h("td", null, shown || ""), h("td", null, prose(answer.description)));
  });
}

function operation(each) {
  const { method, path, summary, description, operationId, requestBody, security } = each;
  const body = requestBody && Object.values(requestBody.content)[0].schema;
  const scope = security?.flatMap((one) => Object.values(one)).flat()[0];
  return h("details", { key: operationId, id: operationId },
    h("summary", null, h("b", { class: `method ${method.toLowerCase()}` }, method), h("code", null, path), h("span", null, summary), scope && h("small", null, `scope ${scope}`)),
    description && h("p", null, prose(description)),
    table("Parameters", (each.parameters ?? []).map(resolve).map(parameter)),
    body && [table(["Body ", body.$ref ? linkTo(nameOf(body.$ref)) : ""], fields(resolve(body)))],
    table("Answers", responses(each.responses)),
    h("h3", null, "Try"), h("pre", null, curl(each)));
}

function show() {
  if (!openapi) return draw(main, h("p", { class: "empty" }, "The gateway does not answer. Reload the page once it does."));
  const words = filter.value.trim().toLowerCase().split(/\s+/);
  const fits = (each) => words.every((word) => `${each.method} ${each.path} ${each.summary} ${each.operationId}`.toLowerCase().includes(word));
  const groups = openapi.tags.map((tag) => [tag, operations.filter((each) => each.tags.includes(tag.name) && fits(each))]).filter(([, some]) => some.length);
  const schemas = Object.entries(openapi.components.schemas);
  draw(main,
    h("div", { class: "title" }, h("h1", null, "HTTP API")), h("p", { class: "dim" }, prose(openapi.info.description)),
    groups.map(([tag, some]) => h("section", { key: tag.name }, h("div", { class: "head" }, h("h2", null, tag.name), h("p", null, tag.description)), some.map(operation))),
    !groups.length && h("p", { class: "empty" }, "No route matches."),
    h("section", { key: "schemas" }, h("div", { class: "head" }, h("h2", null, "schemas")),
      schemas.map(([name, schema]) => h("details", { key: name, id: `schema-${name}` }, h("summary", null, h("code", null, name)),
        schema.description && h("p", null, prose(schema.description)), table("Fields", fields(schema)) || h("p", null, h("code", null, typeOf(schema)))))));
}

// The address may name a route or a schema: open it.
function reveal() {
  const part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (part?.tagName !== "DETAILS") return;
  part.setAttribute("open", "");
  part.scrollIntoView();
}

document.getElementById("find").onsubmit = (event) => event.preventDefault();
filter.oninput = show;
addEventListener("hashchange", reveal);
addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target !== filter) (event.preventDefault(), filter.select());
});
show();
reveal();
