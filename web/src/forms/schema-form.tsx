/**
 * A form made from the JSON Schema of an object. Only what was entered is in the value: a field that is not set shows
 * what holds then, and can be reset to that. Checks lightly while typing; `errors` are what the server said.
 */
import { useMemo, type ReactNode } from 'react';
import { classes } from '@/lib/class-names';
import { FieldView } from './field';
import { JsonField } from './json-field';
import { type JsonSchema, formOf, isObject } from './schema';
import { type Fault, others, pointer, put } from './values';

export interface SchemaFormProps {
  schema: JsonSchema;
  value: Readonly<Record<string, unknown>>;
  onChange: (value: Record<string, unknown>) => void;
  /** What holds where nothing is set, where that is not the schema's default (a variant's parameters). */
  placeholder?: Readonly<Record<string, unknown>>;
  /** By JSON pointer into the value, as the server tells them. */
  errors?: readonly Fault[];
  /** Names that are shown elsewhere: the `messages` of a chat. */
  without?: readonly string[];
  /** Descriptions on hover only, and less room between the fields. */
  compact?: boolean;
}

const NONE: readonly never[] = [];
const NOTHING: Readonly<Record<string, unknown>> = {};

export function SchemaForm({ schema, value, onChange, placeholder = NOTHING, errors = NONE, without = NONE, compact = false }: SchemaFormProps): ReactNode {
  // `without` is mostly written in place, so its names are what counts.
  const names = without.join('\n');
  const form = useMemo(() => formOf(schema, names ? names.split('\n') : []), [schema, names]);
  const more = others(form, value, without);
  const hasMore = Object.keys(more).length > 0;
  if (!form.fields.length && !form.open && !hasMore) return <p className="text-[13px] text-faint">Nothing to set here.</p>;
  return (
    <div className={classes('flex min-w-0 flex-col', compact ? 'gap-1.5' : 'gap-3.5')}>
      {form.fields.map((field) => (
        <FieldView
          key={field.name}
          field={field}
          value={value[field.name]}
          fallback={Object.hasOwn(placeholder, field.name) ? placeholder[field.name] : field.shape.fallback}
          onChange={(next) => onChange(put(value, field.name, next))}
          path={pointer('', field.name)}
          errors={errors}
          compact={compact}
        />
      ))}
      {(form.open || hasMore) && (
        <div>
          <p className={classes('mb-1 font-medium', compact ? 'text-xs text-muted' : 'text-[13px]')}>
            {form.open ? (form.fields.length ? 'More values' : 'Values, any names') : 'Not known to this workflow'}
          </p>
          <JsonField
            label="More values, as JSON"
            value={hasMore ? more : undefined}
            placeholder={'{"name": "value"}'}
            fault={objectFault}
            onChange={(next) => {
              const rest = Object.fromEntries(Object.entries(value).filter(([name]) => !Object.hasOwn(more, name)));
              onChange({ ...rest, ...(isObject(next) ? next : {}) });
            }}
          />
        </div>
      )}
      {errors.filter(({ path }) => path === '' || path === '/').map(({ message }) => (
        <p key={message} role="alert" className="text-xs text-bad wrap-anywhere">
          {message}
        </p>
      ))}
    </div>
  );
}

const objectFault = (value: unknown): string | null => (isObject(value) ? null : 'Must be an object: names and their values.');
