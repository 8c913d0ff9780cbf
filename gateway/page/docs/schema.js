// A JSON schema as short text, with links to the schemas that it names.

import { h } from "../dom.js";

export const nameOf = (ref) => ref.split("/").at(-1);
export const linkTo = (name) => h("a", { href: `#schema-${name}` }, name);

const joined = (parts, by) => parts.flatMap((part, i) => (i ? [by, part] : [part]));

export function typeOf(schema) {
  if (!schema || schema === true) return "any";
  if (schema.$ref) return linkTo(nameOf(schema.$ref));
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return joined(schema.enum.map((each) => JSON.stringify(each)), " | ");
  const some = schema.anyOf ?? schema.oneOf;
  if (some) return joined(some.map(typeOf), " | ");
  if (schema.type === "array") return [typeOf(schema.items), "[]"];
  if (schema.properties) return ["{", joined(Object.entries(schema.properties).map(([name, each]) => [`${name}: `, typeOf(each)]), ", "), "}"];
  if (schema.type === "object" && schema.additionalProperties) return ["{name: ", typeOf(schema.additionalProperties), "}"];
  return schema.type ?? "any";
}

const LIMITS = {
  minimum: (n) => `from ${n}`, exclusiveMinimum: (n) => `more than ${n}`, maximum: (n) => `up to ${n}`,
  minLength: (n) => `at least ${n} long`, maxLength: (n) => `at most ${n} long`, minItems: (n) => `at least ${n}`, maxItems: (n) => `at most ${n}`,
  pattern: (text) => `matches ${text}`, default: (value) => (value === null || value === undefined ? "" : `default ${JSON.stringify(value)}`),
};

// The description and the limits of a value, beside its type.
export function noteOf(schema = {}) {
  const each = schema.anyOf?.find((one) => one.type !== "null") ?? schema;
  const limits = Object.keys(LIMITS).filter((name) => name in each || name in schema).map((name) => LIMITS[name](schema[name] ?? each[name]));
  return [schema.description ?? "", limits.filter(Boolean).join(", ")].filter(Boolean).join(" · ");
}

const row = (name, type, required, note) => h("tr", null, h("td", null, h("code", null, name), required && h("b", null, "required")), h("td", null, h("code", null, type)), h("td", null, note));

// Required ones first.
export const fields = ({ properties = {}, required = [] }) => Object.entries(properties)
  .sort(([a], [b]) => required.includes(b) - required.includes(a))
  .map(([name, each]) => row(name, typeOf(each), required.includes(name), noteOf(each)));
export const parameter = (each) => row(each.name, typeOf(each.schema), each.required, [each.in, " · ", each.description, " ", noteOf({ ...each.schema, description: "" })]);
export const table = (title, rows) => rows.length > 0 && [h("h3", null, title), h("table", null, h("tbody", null, rows))];
