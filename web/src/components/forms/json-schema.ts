/**
 * JSON Schema as form fields. Handles schemas as pydantic and msgspec write them; anything else becomes a JSON field.
 * Independent of React and of values.
 */
export type JsonSchema = Readonly<Record<string, unknown>>;

export type TextFormat = 'plain' | 'date' | 'time' | 'email' | 'url' | 'password' | 'code';

export type Kind =
  | { kind: 'text'; format: TextFormat; language?: string; minLength: number; maxLength: number }
  | { kind: 'number'; isInteger: boolean; range: Range }
  | { kind: 'switch' }
  | { kind: 'choice'; options: readonly unknown[] }
  | { kind: 'list'; item: Shape; min: number; max: number }
  | { kind: 'group'; fields: readonly Field[]; open: boolean }
  | { kind: 'json' };

/** Bounds of a number; exclusive where `above` or `below` says so, infinite where missing. */
export interface Range {
  min: number;
  max: number;
  above: number;
  below: number;
  step: number | null;
}

export type Shape = Kind & {
  nullable: boolean;
  description: string;
  /** Value that applies while unset; undefined if unknown. */
  fallback: unknown;
};

export interface Field {
  name: string;
  required: boolean;
  shape: Shape;
}

export interface Form {
  fields: readonly Field[];
  /** Whether other names than those of the fields are allowed. */
  open: boolean;
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The fields of an object schema. */
export function formOf(schema: JsonSchema, excluded: readonly string[] = []): Form {
  const form = fieldsOf(resolveSchema(schema, schema, []).schema, schema, []);
  return { ...form, fields: form.fields.filter(({ name }) => !excluded.includes(name)) };
}

function fieldsOf(schema: JsonSchema, root: JsonSchema, visitedRefs: readonly string[]): Form {
  const required = Array.isArray(schema.required) ? schema.required : [];
  const properties = isObject(schema.properties) ? schema.properties : {};
  const fields = Object.entries(properties).map(([name, property]) => ({
    name,
    required: required.includes(name),
    shape: shapeOf(property, root, visitedRefs),
  }));
  // Objects are open by default in JSON Schema; our server says explicitly whether extra names are allowed.
  return { fields, open: schema.additionalProperties === true || isObject(schema.additionalProperties) };
}

/** The shape of one value. `visitedRefs` holds the references on the path here, because a schema may contain itself. */
export function shapeOf(rawSchema: unknown, root: JsonSchema, visitedRefs: readonly string[] = []): Shape {
  const { schema, visitedRefs: outerRefs } = resolveSchema(rawSchema, root, visitedRefs);
  const { schema: inner, nullable, visitedRefs: innerRefs } = withoutNull(schema, root, outerRefs);
  const description = asString(schema.description) || asString(inner.description);
  const fallback = schema.default === undefined ? inner.default : schema.default;
  return { ...kindOf(inner, root, innerRefs), nullable, description, fallback };
}

function kindOf(schema: JsonSchema, root: JsonSchema, visitedRefs: readonly string[]): Kind {
  if (schema.const !== undefined) return { kind: 'choice', options: [schema.const] };
  if (Array.isArray(schema.enum)) return { kind: 'choice', options: schema.enum.filter((option) => option !== null) };
  const constants = Array.isArray(schema.anyOf)
    ? schema.anyOf.map((choice) => (isObject(choice) ? choice.const : undefined))
    : [];
  if (constants.length && constants.every((item) => item !== undefined)) return { kind: 'choice', options: constants };
  if (Array.isArray(schema.anyOf) || Array.isArray(schema.oneOf)) return { kind: 'json' };
  switch (schema.type) {
    case 'string':
      return {
        kind: 'text',
        ...formatOf(schema),
        minLength: numberOr(schema.minLength, 0),
        maxLength: numberOr(schema.maxLength, Infinity),
      };
    case 'integer':
    case 'number':
      return { kind: 'number', isInteger: schema.type === 'integer', range: rangeOf(schema) };
    case 'boolean':
      return { kind: 'switch' };
    case 'array':
      return listOf(schema, root, visitedRefs);
    case 'object': {
      const form = fieldsOf(schema, root, visitedRefs);
      return form.fields.length ? { kind: 'group', ...form } : { kind: 'json' };
    }
    default:
      return { kind: 'json' };
  }
}

function listOf(schema: JsonSchema, root: JsonSchema, visitedRefs: readonly string[]): Kind {
  if (!isObject(schema.items) || Array.isArray(schema.prefixItems)) return { kind: 'json' };
  const item = shapeOf(schema.items, root, visitedRefs);
  const isSimple = !item.nullable && ['text', 'number', 'switch', 'choice'].includes(item.kind);
  return isSimple
    ? { kind: 'list', item, min: numberOr(schema.minItems, 0), max: numberOr(schema.maxItems, Infinity) }
    : { kind: 'json' };
}

// Schema keywords

interface ResolvedSchema {
  schema: JsonSchema;
  visitedRefs: readonly string[];
}

/** Follow a reference and merge a single `allOf`; siblings of the reference override it. */
function resolveSchema(rawSchema: unknown, root: JsonSchema, visitedRefs: readonly string[]): ResolvedSchema {
  if (!isObject(rawSchema)) return { schema: {}, visitedRefs };
  const { $ref, allOf, ...siblings } = rawSchema;
  if (typeof $ref === 'string') {
    if (visitedRefs.includes($ref)) return { schema: {}, visitedRefs };
    const resolved = resolveSchema(resolvePointer($ref, root), root, [...visitedRefs, $ref]);
    return { schema: { ...resolved.schema, ...siblings }, visitedRefs: resolved.visitedRefs };
  }
  if (Array.isArray(allOf) && allOf.length === 1) {
    const resolved = resolveSchema(allOf[0], root, visitedRefs);
    return { schema: { ...resolved.schema, ...siblings }, visitedRefs: resolved.visitedRefs };
  }
  return { schema: rawSchema, visitedRefs };
}

function resolvePointer(reference: string, root: JsonSchema): unknown {
  if (!reference.startsWith('#')) return undefined;
  const steps = reference
    .slice(1)
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
  return steps.reduce<unknown>(
    (value, step) => (isObject(value) && Object.hasOwn(value, step) ? value[step] : undefined),
    root,
  );
}

/** `int | None` becomes a nullable integer. */
function withoutNull(
  schema: JsonSchema,
  root: JsonSchema,
  visitedRefs: readonly string[],
): ResolvedSchema & { nullable: boolean } {
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((type) => type !== 'null');
    const inner = { ...schema, type: types.length === 1 ? types[0] : undefined };
    return { schema: inner, nullable: types.length < schema.type.length, visitedRefs };
  }
  const choices = Array.isArray(schema.anyOf) ? schema.anyOf : Array.isArray(schema.oneOf) ? schema.oneOf : null;
  if (!choices) return { schema, nullable: Array.isArray(schema.enum) && schema.enum.includes(null), visitedRefs };
  const others = choices.filter((choice) => !(isObject(choice) && choice.type === 'null'));
  const nullable = others.length < choices.length;
  if (others.length === 1) {
    // Keywords next to the choice apply to it: pydantic and msgspec describe `str | None` that way.
    const { anyOf: _, oneOf: __, ...siblings } = schema;
    const resolved = resolveSchema(others[0], root, visitedRefs);
    return { schema: { ...siblings, ...resolved.schema }, visitedRefs: resolved.visitedRefs, nullable };
  }
  return { schema: { ...schema, anyOf: others }, nullable, visitedRefs };
}

function formatOf(schema: JsonSchema): { format: TextFormat; language?: string } {
  const language = languageOf(schema);
  if (language) return { format: 'code', language };
  switch (schema.format) {
    case 'date':
    case 'time':
    case 'email':
    case 'password':
      return { format: schema.format };
    case 'uri':
    case 'url':
      return { format: 'url' };
    default:
      return { format: 'plain' };
  }
}

/** The language of a text's media type; undefined for prose and for encoded data. */
function languageOf({ contentMediaType, contentEncoding }: JsonSchema): string | undefined {
  if (typeof contentMediaType !== 'string' || contentEncoding !== undefined) return undefined;
  const name = /^(?:text|application)\/(?:x-)?([a-z0-9]{1,20})(?:;|$)/.exec(contentMediaType.toLowerCase())?.[1];
  return name === 'plain' ? undefined : name === 'ecmascript' ? 'javascript' : name;
}

/** Whether the form has code or JSON fields, which need width. */
export const hasWideField = ({ fields }: Pick<Form, 'fields'>): boolean =>
  fields.some(
    ({ shape }) =>
      (shape.kind === 'text' && shape.format === 'code') || (shape.kind === 'group' && hasWideField(shape)),
  );

function rangeOf(schema: JsonSchema): Range {
  return {
    min: numberOr(schema.minimum, -Infinity),
    max: numberOr(schema.maximum, Infinity),
    above: numberOr(schema.exclusiveMinimum, -Infinity),
    below: numberOr(schema.exclusiveMaximum, Infinity),
    step: typeof schema.multipleOf === 'number' && schema.multipleOf > 0 ? schema.multipleOf : null,
  };
}

const numberOr = (value: unknown, fallback: number): number =>
  typeof value === 'number' && Number.isFinite(value) ? value : fallback;

const asString = (value: unknown): string => (typeof value === 'string' ? value : '');

/**
 * Initial inputs: the schema's first example, or else the first example of each property without a default. Leaves out
 * messages.
 */
export function exampleOf(schema: JsonSchema | undefined): Record<string, unknown> {
  const schemaExample = firstExample(schema);
  const { messages: _, ...example } = isObject(schemaExample) ? schemaExample : propertyExamples(schema);
  return structuredClone(example);
}

function propertyExamples(schema: JsonSchema | undefined): Record<string, unknown> {
  const properties = isObject(schema?.properties) ? Object.entries(schema.properties) : [];
  return Object.fromEntries(
    properties.flatMap(([name, property]) => {
      const example = firstExample(property);
      const hasDefault = isObject(property) && property.default !== undefined && property.default !== null;
      return example === undefined || hasDefault ? [] : [[name, example]];
    }),
  );
}

const firstExample = (schema: unknown): unknown =>
  isObject(schema) && Array.isArray(schema.examples) ? (schema.examples[0] as unknown) : undefined;
