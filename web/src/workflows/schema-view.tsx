/** What a workflow takes or gives, as a table of properties; the schema itself one click away. */
import { Braces } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import type { JsonSchema } from '@/components/forms/json-schema';
import { CodeBlock } from '@/components/markdown/code-block';
import { IconButton } from '@/components/button';
import { propertiesOf, typeOf, type Property } from './properties';

export function SchemaView({ title, schema, none }: { title: string; schema: JsonSchema | undefined; none: string }): ReactNode {
  const [raw, setRaw] = useState(false);
  const properties = propertiesOf(schema ?? {});
  return (
    <section>
      <header className="flex h-8 items-center justify-between">
        <h3 className="font-medium">{title}</h3>
        {schema && (
          <IconButton label={raw ? 'Show as a table' : 'Show the JSON Schema'} size="small" aria-pressed={raw} onClick={() => setRaw(!raw)}>
            <Braces className={raw ? 'text-accent' : ''} />
          </IconButton>
        )}
      </header>
      {raw && schema ? (
        <CodeBlock text={JSON.stringify(schema, null, 2)} language="json" />
      ) : properties.length > 0 ? (
        <Properties properties={properties} />
      ) : (
        <p className="text-muted">{schema && schema.type !== 'object' && Object.keys(schema).length > 0 ? typeOf(schema, schema) : none}</p>
      )}
    </section>
  );
}

const Properties = ({ properties }: { properties: readonly Property[] }): ReactNode => (
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
              {description}
            </p>
          )}
        </dd>
      </div>
    ))}
  </dl>
);
