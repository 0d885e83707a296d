/** An evaluator's schema as a form shows it best: what may be a list of texts or one text is a list of texts. Pure. */
import { isObject, type JsonSchema } from '@/components/forms/json-schema';

/** Parameters that nearly all of them have: they are told apart, so that its own come first. */
export const COMMON = ['target', 'stringify', 'expected_from', 'case_sensitive', 'threshold'];

export function eased(schema: JsonSchema): JsonSchema {
  if (!isObject(schema['properties'])) return schema;
  return { ...schema, properties: Object.fromEntries(Object.entries(schema['properties']).map(([name, one]) => [name, list(one)])) };
}

function list(property: unknown): unknown {
  if (!isObject(property) || !Array.isArray(property['anyOf'])) return property;
  const { anyOf, ...rest } = property;
  const kinds = anyOf.filter(isObject);
  const many = kinds.find((one) => one['type'] === 'array' && isObject(one['items']) && one['items']['type'] === 'string');
  const others = kinds.filter((one) => one !== many && one['type'] !== 'string');
  if (!many || others.some((one) => one['type'] !== 'null')) return property;
  return others.length > 0 ? { ...rest, anyOf: [many, ...others] } : { ...rest, ...many };
}

/** Its parameters but for those that all have. */
export const ownNames = (schema: JsonSchema): string[] =>
  isObject(schema['properties']) ? Object.keys(schema['properties']).filter((name) => name !== 'name' && !COMMON.includes(name)) : [];

export const commonNames = (schema: JsonSchema): string[] =>
  isObject(schema['properties']) ? COMMON.filter((name) => Object.hasOwn(schema['properties'] as object, name)) : [];
