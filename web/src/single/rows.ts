/** Rows of a board in single mode, and what can be put into them. Pure. */
import type { Row } from '@/api/types';
import { type JsonSchema, isObject } from '@/components/forms/json-schema';

export const MOST_ROWS = 1000;

export type Inputs = Record<string, unknown>;

/** New rows with free names, after those that are there. */
export function added(rows: readonly Row[], inputs: readonly Inputs[]): Row[] {
  const taken = new Set(rows.map(({ id }) => id));
  let number = rows.length;
  const next = (): string => {
    do number += 1;
    while (taken.has(`r${number}`));
    return `r${number}`;
  };
  return [...rows, ...inputs.slice(0, MOST_ROWS - rows.length).map((one) => ({ id: next(), name: '', inputs: one }))];
}

/** The row once more, below itself. */
export function duplicated(rows: readonly Row[], id: string): Row[] {
  const place = rows.findIndex((row) => row.id === id);
  const made = added(rows, [structuredClone(rows[place]?.inputs ?? {})]).slice(rows.length);
  return [...rows.slice(0, place + 1), ...made, ...rows.slice(place + 1)];
}

/** What the workflows of several columns take, in one schema: a row's inputs go to all of them. */
export function merged(schemas: readonly JsonSchema[]): JsonSchema {
  const [only, ...others] = schemas;
  if (only && !others.length) return only;
  const parts = schemas.map((schema, place) => moved(schema, `#/$defs/w${place}/$defs/`) as JsonSchema);
  return {
    type: 'object',
    properties: Object.assign({}, ...parts.toReversed().map(({ properties }) => properties)) as unknown,
    required: [...new Set(parts.flatMap(({ required }) => (Array.isArray(required) ? (required as string[]) : [])))],
    additionalProperties: parts.some(({ additionalProperties }) => additionalProperties === true || isObject(additionalProperties)),
    $defs: Object.fromEntries(parts.map(({ $defs }, place) => [`w${place}`, { $defs }])),
  };
}

/** References into `$defs` point elsewhere now: two workflows may mean different things by one name. */
function moved(value: unknown, to: string): unknown {
  if (Array.isArray(value)) return value.map((item) => moved(item, to));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [
      name,
      name === '$ref' && typeof item === 'string' ? item.replace(/^#\/\$defs\//, to) : moved(item, to),
    ]),
  );
}
