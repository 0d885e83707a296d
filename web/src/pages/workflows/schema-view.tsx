/** Inputs or outputs of a workflow as a table, with the JSON Schema. */
import { Braces } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { IconButton } from '@/components/button';
import { type JsonSchema, isObject } from '@/components/forms/json-schema';
import { CodeBlock } from '@/components/markdown/code-block';
import { ProseWithCode } from '@/components/text';

export function SchemaView({
  title,
  schema,
  emptyText,
}: {
  title: string;
  schema: JsonSchema | undefined;
  emptyText: string;
}): ReactNode {
  const [showSchema, setShowSchema] = useState(false);
  const properties = propertiesOf(schema ?? {});
  return (
    <section>
      <header className="flex h-8 items-center justify-between">
        <h3 className="font-medium">{title}</h3>
        {schema && (
          <IconButton
            label={showSchema ? 'Show as a table' : 'Show the JSON Schema'}
            size="small"
            aria-pressed={showSchema}
            onClick={() => setShowSchema(!showSchema)}
          >
            <Braces className={showSchema ? 'text-accent' : ''} />
          </IconButton>
        )}
      </header>
      {showSchema && schema ? (
        <CodeBlock text={JSON.stringify(schema, null, 2)} language="json" />
      ) : properties.length > 0 ? (
        <PropertyTable properties={properties} />
      ) : (
        <p className="text-muted">
          {schema && schema.type !== 'object' && Object.keys(schema).length > 0 ? typeLabel(schema, schema) : emptyText}
        </p>
      )}
    </section>
  );
}

const PropertyTable = ({ properties }: { properties: readonly Property[] }): ReactNode => (
  <dl className="divide-y divide-line rounded-lg border bg-surface">
    {properties.map(({ name, type, required, fallback, description }) => (
      <div key={name} className="grid gap-x-4 gap-y-0.5 px-3 py-2 sm:grid-cols-[minmax(7rem,1fr)_3fr]">
        <dt className="min-w-0 font-mono text-[13px] wrap-anywhere">
          {name}
          {required && (
            <span className="pl-1 text-bad" title="Required">
              *<span className="sr-only"> required</span>
            </span>
          )}
        </dt>
        <dd className="min-w-0">
          <span className="text-[13px] text-muted wrap-anywhere">
            {type}
            {fallback !== null && (
              <>
                {' · default '}
                <code className="rounded bg-sunken px-1 font-mono text-xs text-ink">{fallback}</code>
              </>
            )}
          </span>
          {description && (
            <p className="wrap-anywhere" dir="auto">
              <ProseWithCode text={description} />
            </p>
          )}
        </dd>
      </div>
    ))}
  </dl>
);

export interface Property {
  name: string;
  type: string;
  required: boolean;
  /** As JSON; null if there is none. */
  fallback: string | null;
  description: string;
}

const MAX_VALUE_LENGTH = 120;

/** Properties of an object schema in order; empty for other schemas. */
export function propertiesOf(schema: JsonSchema): Property[] {
  const { properties, required } = resolveRef(schema, schema);
  const requiredNames = new Set(Array.isArray(required) ? required : []);
  return Object.entries(isObject(properties) ? properties : {}).map(([name, rawSchema]) => {
    const property = resolveRef(rawSchema, schema);
    return {
      name,
      type: typeLabel(rawSchema, schema),
      required: requiredNames.has(name),
      fallback: property.default === undefined ? null : JSON.stringify(property.default),
      description: typeof property.description === 'string' ? property.description : '',
    };
  });
}

/** Type as text: `list of text`, `number, 0 to 2`, `"short" or "long"`. */
export function typeLabel(rawSchema: unknown, root: JsonSchema, depth = 0): string {
  const schema = resolveRef(rawSchema, root);
  const label =
    depth > 3
      ? 'anything'
      : (typeMarker(schema) ??
        enumLabel(schema) ??
        alternativesLabel(schema, root, depth) ??
        plainType(schema, root, depth));
  return label.length > MAX_VALUE_LENGTH ? `${label.slice(0, MAX_VALUE_LENGTH - 1)}…` : label;
}

function typeMarker(schema: JsonSchema): string | null {
  const mark = schema['x-ag-type-ref'];
  return typeof mark === 'string' ? mark : null;
}

function enumLabel(schema: JsonSchema): string | null {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  return Array.isArray(schema.enum) ? unionLabel(schema.enum.map((value) => JSON.stringify(value))) : null;
}

function alternativesLabel(schema: JsonSchema, root: JsonSchema, depth: number): string | null {
  const alternatives = [schema.anyOf, schema.oneOf].find(Array.isArray);
  return alternatives ? unionLabel(alternatives.map((alternative) => typeLabel(alternative, root, depth + 1))) : null;
}

function plainType(schema: JsonSchema, root: JsonSchema, depth: number): string {
  const { type, format } = schema;
  if (Array.isArray(type)) return unionLabel(type.map((name) => plainType({ ...schema, type: name }, root, depth)));
  switch (type) {
    case 'string':
      return typeof format === 'string' ? `text (${format})` : 'text';
    case 'integer':
      return `whole number${rangeLabel(schema)}`;
    case 'number':
      return `number${rangeLabel(schema)}`;
    case 'boolean':
      return 'boolean';
    case 'null':
      return 'null';
    case 'array':
      return isObject(schema.items) && Object.keys(schema.items).length > 0
        ? `list of ${typeLabel(schema.items, root, depth + 1)}`
        : 'list';
    case 'object':
      return 'object';
    default:
      return 'anything';
  }
}

function rangeLabel({ minimum: min, maximum: max }: JsonSchema): string {
  if (typeof min === 'number' && typeof max === 'number') return `, ${min} to ${max}`;
  if (typeof min === 'number') return `, at least ${min}`;
  return typeof max === 'number' ? `, at most ${max}` : '';
}

function unionLabel(labels: readonly string[]): string {
  const unique = [...new Set(labels)];
  return unique.length < 2 ? (unique[0] ?? 'anything') : `${unique.slice(0, -1).join(', ')} or ${unique.at(-1)}`;
}

/** Follow a local reference; siblings override it. Stops at cycles. */
function resolveRef(rawSchema: unknown, root: JsonSchema): JsonSchema {
  let schema: JsonSchema = isObject(rawSchema) ? rawSchema : {};
  for (let steps = 0; typeof schema.$ref === 'string' && steps < 8; steps++) {
    const { $ref, ...siblings } = schema;
    schema = { ...resolvePointer(root, String($ref)), ...siblings };
  }
  return schema;
}

function resolvePointer(root: JsonSchema, reference: string): JsonSchema {
  let target: unknown = root;
  for (const step of reference.replace(/^#\/?/, '').split('/').filter(Boolean)) {
    target = isObject(target) ? target[step.replaceAll('~1', '/').replaceAll('~0', '~')] : undefined;
  }
  return reference.startsWith('#') && isObject(target) ? target : {};
}
