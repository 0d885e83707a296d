/**
 * A form for the JSON Schema of an object. The value holds only what was entered; unset fields show their default and
 * can be reset to it. Checks lightly while typing; `errors` come from the server.
 */
import { Ban, Braces, Plus, RotateCcw, X } from 'lucide-react';
import { useMemo, type ReactNode, useId, useState } from 'react';
import { Button, IconButton } from '@/components/button';
import { ProseWithCode } from '@/components/text';
import { cn } from '@/lib/cn';
import { JsonField, Control } from './controls';
import { type JsonSchema, formOf, isObject, type Field, type Shape } from './json-schema';
import {
  type FieldError,
  unknownFields,
  pointer,
  withField,
  emptyItem,
  fieldError,
  matchesShape,
  withNestedField,
  formatValue,
} from './values';

export interface SchemaFormProps {
  schema: JsonSchema;
  value: Readonly<Record<string, unknown>>;
  onChange: (value: Record<string, unknown>) => void;
  /** Defaults that override the schema's, such as a variant's parameters. */
  placeholder?: Readonly<Record<string, unknown>>;
  /** Server errors by JSON pointer into the value. */
  errors?: readonly FieldError[];
  /** Names to leave out, such as the `messages` of a chat. */
  excluded?: readonly string[];
  /** Show descriptions on hover only, with less spacing. */
  compact?: boolean;
}

const NO_ITEMS: readonly never[] = [];
const NO_VALUES: Readonly<Record<string, unknown>> = {};

export function SchemaForm({
  schema,
  value,
  onChange,
  placeholder = NO_VALUES,
  errors = NO_ITEMS,
  excluded = NO_ITEMS,
  compact = false,
}: SchemaFormProps): ReactNode {
  // Callers pass `excluded` inline, so compare its names.
  const names = excluded.join('\n');
  const form = useMemo(() => formOf(schema, names ? names.split('\n') : []), [schema, names]);
  const extra = unknownFields(form, value, excluded);
  const hasExtra = Object.keys(extra).length > 0;
  if (!form.fields.length && !form.open && !hasExtra)
    return <p className="text-[13px] text-faint">Nothing to configure.</p>;
  return (
    <div className={cn('flex min-w-0 flex-col', compact ? 'gap-1.5' : 'gap-3.5')}>
      {form.fields.map((field) => (
        <FieldView
          key={field.name}
          field={field}
          value={value[field.name]}
          fallback={Object.hasOwn(placeholder, field.name) ? placeholder[field.name] : field.shape.fallback}
          onChange={(next) => onChange(withField(value, field.name, next))}
          path={pointer('', field.name)}
          errors={errors}
          compact={compact}
        />
      ))}
      {(form.open || hasExtra) && (
        <div>
          <p className={cn('mb-1 font-medium', compact ? 'text-xs text-muted' : 'text-[13px]')}>
            {form.open ? (form.fields.length ? 'Additional values' : 'Values') : 'Unknown fields'}
          </p>
          <JsonField
            label="Additional values as JSON"
            value={hasExtra ? extra : undefined}
            placeholder={'{"name": "value"}'}
            validate={objectError}
            onChange={(next) => {
              const known = Object.fromEntries(Object.entries(value).filter(([name]) => !Object.hasOwn(extra, name)));
              onChange({ ...known, ...(isObject(next) ? next : {}) });
            }}
          />
        </div>
      )}
      {errors
        .filter(({ path }) => path === '' || path === '/')
        .map(({ message }) => (
          <p key={message} role="alert" className="text-xs text-bad wrap-anywhere">
            {message}
          </p>
        ))}
    </div>
  );
}

const objectError = (value: unknown): string | null => (isObject(value) ? null : 'Must be a JSON object.');

/** One field: label, description, control, and actions to reset, clear or edit as JSON. */
export interface FieldProps {
  field: Field;
  value: unknown;
  /** Value that applies while unset: the schema's default or the caller's. */
  fallback: unknown;
  /** Undefined unsets the value. */
  onChange: (value: unknown) => void;
  path: string;
  errors: readonly FieldError[];
  compact: boolean;
}

export function FieldView({ field, value, fallback, onChange, path, errors, compact }: FieldProps): ReactNode {
  const { name, required, shape } = field;
  const id = useId();
  const [asJson, setAsJson] = useState(false);
  const [resetCount, setResetCount] = useState(0);
  const isJsonText = shape.kind === 'json' || asJson || !matchesShape(shape, value);
  const isGroup = shape.kind === 'group' && !isJsonText && value !== null;
  const hasNestedFields = isGroup || (shape.kind === 'list' && !isJsonText);
  const serverMessages = errors
    .filter((error) => error.path === path || (!hasNestedFields && error.path.startsWith(`${path}/`)))
    .map(({ message }) => message);
  const localMessage = fieldError(shape, value);
  const messages = localMessage ? [localMessage, ...serverMessages] : serverMessages;
  return (
    <div
      role={isGroup ? 'group' : undefined}
      aria-labelledby={isGroup ? `${id}-label` : undefined}
      className="group/field min-w-0"
    >
      <div className="flex min-h-6 items-center gap-1">
        <label
          id={`${id}-label`}
          htmlFor={id}
          title={compact && shape.description ? shape.description : undefined}
          className={cn('min-w-0 truncate font-medium', compact ? 'text-xs text-muted' : 'text-[13px]')}
        >
          {name}
          {required && (
            <span className="text-faint" aria-hidden>
              {' *'}
            </span>
          )}
        </label>
        <span className="grow" />
        <span
          className={cn(
            'flex opacity-0 transition-opacity group-focus-within/field:opacity-100',
            'group-hover/field:opacity-100 pointer-coarse:opacity-100',
          )}
        >
          {shape.nullable && value !== null && fallback !== null && (
            <FieldAction label={`Set ${name} to null`} onClick={() => onChange(null)} icon={<Ban />} />
          )}
          {shape.kind !== 'json' && (
            <FieldAction
              label={asJson ? `Show ${name} as a field` : `Edit ${name} as JSON`}
              onClick={() => setAsJson(!asJson)}
              icon={<Braces />}
              pressed={asJson}
            />
          )}
        </span>
        {value !== undefined && (
          <FieldAction
            label={`Reset ${name}`}
            icon={<RotateCcw />}
            onClick={() => {
              setResetCount(resetCount + 1);
              onChange(undefined);
            }}
          />
        )}
      </div>
      {!compact && shape.description && (
        <p className="mb-1 text-xs text-muted wrap-anywhere">
          <ProseWithCode text={shape.description} />
        </p>
      )}
      <FieldInput
        key={resetCount}
        {...{ field, value, fallback, onChange, path, errors, compact, id, isJsonText, invalid: messages.length > 0 }}
      />
      {messages.map((message) => (
        <p key={message} role="alert" className="mt-1 text-xs text-bad wrap-anywhere">
          {message}
        </p>
      ))}
    </div>
  );
}

/** A small button with a native tooltip, because a table has hundreds of them. */
function FieldAction({
  label,
  icon,
  onClick,
  pressed,
}: {
  label: string;
  icon: ReactNode;
  onClick: () => void;
  pressed?: boolean;
}): ReactNode {
  return (
    <Button
      variant="quiet"
      aria-label={label}
      title={label}
      onClick={onClick}
      aria-pressed={pressed}
      className={cn('size-6 px-0 [&_svg]:size-3.5', pressed && '!text-accent')}
    >
      {icon}
    </Button>
  );
}

type EntryProps = FieldProps & { id: string; isJsonText: boolean; invalid: boolean };

function FieldInput({ field, id, isJsonText, invalid, ...props }: EntryProps): ReactNode {
  const { value, fallback, onChange, path, errors, compact } = props;
  const { name, required, shape } = field;
  if (value === null && shape.kind !== 'json') {
    return (
      <p className="flex h-8 items-center rounded-lg border border-dashed px-2.5 font-mono text-[13px] text-muted">
        null
      </p>
    );
  }
  if (isJsonText) {
    const hint = fallback === undefined ? (required ? 'Required (JSON)' : 'JSON') : formatValue(fallback);
    return <JsonField value={value} onChange={onChange} label={name} placeholder={hint} />;
  }
  if (shape.kind === 'group') {
    return (
      <div className="flex flex-col gap-2 border-l-2 pl-3">
        {shape.fields.map((inner) => (
          <FieldView
            key={inner.name}
            field={inner}
            value={isObject(value) ? value[inner.name] : undefined}
            fallback={
              isObject(fallback) && fallback[inner.name] !== undefined ? fallback[inner.name] : inner.shape.fallback
            }
            onChange={(next) => onChange(withNestedField(value, fallback, inner.name, next))}
            path={pointer(path, inner.name)}
            errors={errors}
            compact={compact}
          />
        ))}
      </div>
    );
  }
  if (shape.kind === 'list') {
    return (
      <ListEntry
        item={shape.item}
        maxItems={shape.max}
        id={id}
        name={name}
        {...{ value, fallback, onChange, path, errors }}
      />
    );
  }
  return <Control {...{ shape, value, fallback, required, onChange, id, invalid }} label={name} />;
}

interface ListProps extends Pick<FieldProps, 'value' | 'fallback' | 'onChange' | 'path' | 'errors'> {
  item: Shape;
  maxItems: number;
  id: string;
  name: string;
}

/** A row for each item. While unset the items of the default are shown, and adding starts from them. */
function ListEntry({ item, maxItems, id, name, value, fallback, onChange, path, errors }: ListProps): ReactNode {
  const ownItems = Array.isArray(value) ? (value as readonly unknown[]) : null;
  const fallbackItems = Array.isArray(fallback) ? (fallback as readonly unknown[]) : [];
  const rows = ownItems ?? fallbackItems;
  return (
    <div className="flex flex-col gap-1.5">
      {rows.map((entry, index) => {
        const message = fieldError(item, entry) ?? errors.find((error) => error.path === pointer(path, index))?.message;
        return (
          // oxlint-disable-next-line react/no-array-index-key -- items have no identity but their place
          <div key={index} className={cn('flex items-start gap-1', !ownItems && 'opacity-60')}>
            <div className={cn('min-w-0', item.kind === 'text' && 'grow')}>
              <Control
                shape={item}
                value={entry}
                fallback={undefined}
                required
                onChange={(next) =>
                  onChange(rows.map((other, position) => (position === index ? (next ?? emptyItem(item)) : other)))
                }
                id={index === 0 ? id : `${id}-${index}`}
                label={`${name} ${index + 1}`}
                invalid={Boolean(message)}
              />
              {message && <p className="mt-1 text-xs text-bad">{message}</p>}
            </div>
            <IconButton
              size="small"
              label={`Remove item ${index + 1}`}
              onClick={() => onChange(rows.filter((_, position) => position !== index))}
              className="mt-0.5"
            >
              <X />
            </IconButton>
          </div>
        );
      })}
      <Button
        size="small"
        variant="quiet"
        className="self-start px-1.5"
        disabled={rows.length >= maxItems}
        onClick={() => onChange([...rows, emptyItem(item)])}
      >
        <Plus className="size-3.5" />
        Add item
        {rows.length === 0 && <span className="text-faint">{ownItems ? '(empty list)' : '(none by default)'}</span>}
      </Button>
    </div>
  );
}
