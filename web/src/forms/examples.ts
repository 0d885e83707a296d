/** What a new row begins with: the example that a workflow's schema gives. Pure. */
import { type JsonSchema, isObject } from './schema';

/**
 * The schema's first example of all inputs; without one, the first example of each input for which nothing else holds
 * when nothing is said. Messages are a conversation's own.
 */
export function exampleOf(schema: JsonSchema | undefined): Record<string, unknown> {
  const whole = first(schema);
  const { messages: _, ...example } = isObject(whole) ? whole : eachOf(schema);
  return structuredClone(example);
}

function eachOf(schema: JsonSchema | undefined): Record<string, unknown> {
  const properties = isObject(schema?.properties) ? Object.entries(schema.properties) : [];
  return Object.fromEntries(
    properties.flatMap(([name, property]) => {
      const example = first(property);
      const hasDefault = isObject(property) && property.default !== undefined && property.default !== null;
      return example === undefined || hasDefault ? [] : [[name, example]];
    }),
  );
}

const first = (schema: unknown): unknown => (isObject(schema) && Array.isArray(schema.examples) ? (schema.examples[0] as unknown) : undefined);
