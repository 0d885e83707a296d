/** Inputs for single values, by kind: text, number, switch, choice, code, JSON. Each shows its fallback while unset. */
import { useState, type ReactNode, lazy, Suspense, useRef } from 'react';
import { Select, Switch, TextArea, TextField } from '@/components/form-fields';
import { cn } from '@/lib/cn';
import { unreachable } from '@/lib/unreachable';
import type { Shape } from './json-schema';
import { parseNumber, isEqual, sliderRange, formatValue } from './values';

export interface ControlProps<S extends Shape = Shape> {
  shape: S;
  /** Undefined: unset, `fallback` applies. */
  value: unknown;
  fallback: unknown;
  required: boolean;
  onChange: (value: unknown) => void;
  id: string;
  label: string;
  invalid: boolean;
}

type ControlOf<K extends Shape['kind']> = ControlProps<Extract<Shape, { kind: K }>>;

export function Control({ shape, ...props }: ControlProps): ReactNode {
  switch (shape.kind) {
    case 'text':
      return <TextControl shape={shape} {...props} />;
    case 'number':
      return <NumberControl shape={shape} {...props} />;
    case 'switch':
      return <SwitchControl shape={shape} {...props} />;
    case 'choice':
      return <ChoiceControl shape={shape} {...props} />;
    case 'list':
    case 'group':
    case 'json':
      return null; // Composite shapes are in schema-form.tsx.
    default:
      return unreachable(shape);
  }
}

const placeholderText = (fallback: unknown, required: boolean): string =>
  fallback === undefined || fallback === null ? (required ? 'Required' : '') : formatValue(fallback);

function TextControl({ shape, value, fallback, required, onChange, id, label, invalid }: ControlOf<'text'>): ReactNode {
  const fallbackText = typeof fallback === 'string' ? fallback : '';
  const text = typeof value === 'string' ? value : '';
  const placeholder = value === '' ? 'Empty text' : placeholderText(fallback, required);
  // Erased text is an empty string where that differs from unset.
  const write = (next: string) => onChange(next || (fallbackText || required ? '' : undefined));
  const sharedProps = {
    id,
    dir: 'auto',
    value: text,
    placeholder,
    'aria-invalid': invalid,
    onChange: (event: { currentTarget: { value: string } }) => write(event.currentTarget.value),
  } as const;
  switch (shape.format) {
    case 'plain':
      return <TextArea rows={1} {...sharedProps} className="block min-h-8 py-1" />;
    case 'code':
      return (
        <CodeField text={text} onText={write} label={label} language={shape.language ?? ''} placeholder={placeholder} />
      );
    case 'password':
      return <TextField type="password" autoComplete="off" {...sharedProps} />;
    case 'date':
    case 'time':
    case 'email':
    case 'url':
      return (
        <TextField
          type={shape.format}
          {...sharedProps}
          onChange={(event) => onChange(event.currentTarget.value || undefined)}
          className={cn((shape.format === 'date' || shape.format === 'time') && 'max-w-48')}
        />
      );
    default:
      return unreachable(shape.format);
  }
}

function NumberControl({
  shape,
  value,
  fallback,
  required,
  onChange,
  id,
  label,
  invalid,
}: ControlOf<'number'>): ReactNode {
  const [draft, setDraft] = useState<string | null>(null);
  const parsed = draft === null ? null : parseNumber(draft, shape.isInteger);
  // "-" and "1e" are incomplete numbers; a complete draft that differs from the value is outdated.
  const isPartial = draft !== null && draft !== '' && parsed === null;
  const isDraftCurrent = draft !== null && (isPartial || (draft === '' ? value === undefined : parsed === value));
  const slider = sliderRange(shape.range, shape.isInteger);
  const current = typeof value === 'number' ? value : typeof fallback === 'number' ? fallback : undefined;
  const field = (
    <TextField
      id={id}
      inputMode={shape.isInteger && shape.range.min >= 0 ? 'numeric' : 'decimal'}
      autoComplete="off"
      value={isDraftCurrent ? draft : typeof value === 'number' ? String(value) : ''}
      placeholder={placeholderText(fallback, required)}
      aria-invalid={invalid || (isDraftCurrent && isPartial)}
      onChange={(event) => {
        const text = event.currentTarget.value;
        const next = parseNumber(text, shape.isInteger);
        setDraft(text);
        if (next !== null) onChange(next);
        else if (text === '') onChange(undefined);
      }}
      className={cn('tabular-nums', slider ? 'w-20 shrink-0' : 'max-w-48')}
    />
  );
  return (
    <>
      <div className="flex items-center gap-3">
        {slider && (
          <input
            type="range"
            aria-label={`${label} slider`}
            min={slider.from}
            max={slider.to}
            step={slider.step}
            value={current ?? slider.from}
            onChange={(event) => onChange(Number(event.currentTarget.value))}
            className={cn('h-8 min-w-0 grow cursor-pointer accent-accent', value === undefined && 'opacity-50')}
          />
        )}
        {field}
      </div>
      {isDraftCurrent && isPartial && (
        <p className="mt-1 text-xs text-bad">{shape.isInteger ? 'Must be a whole number.' : 'Must be a number.'}</p>
      )}
    </>
  );
}

function SwitchControl({ value, fallback, onChange, label }: ControlOf<'switch'>): ReactNode {
  const isOn = typeof value === 'boolean' ? value : fallback === true;
  return (
    <div className="flex h-8 items-center gap-2">
      <span className={cn('flex', value === undefined && 'opacity-60')}>
        <Switch checked={isOn} onChange={onChange} label={label} />
      </span>
      <span className="text-[13px] text-muted">
        {isOn ? 'On' : 'Off'}
        {value === undefined && (typeof fallback === 'boolean' ? ' by default' : ', not set')}
      </span>
    </div>
  );
}

function ChoiceControl({ shape, value, fallback, required, onChange, id, invalid }: ControlOf<'choice'>): ReactNode {
  const selectedIndex = shape.options.findIndex((option) => isEqual(option, value));
  const emptyLabel = fallback === undefined ? (required ? 'Choose…' : 'Not set') : `${formatValue(fallback)} (default)`;
  return (
    <Select
      id={id}
      value={selectedIndex < 0 ? '' : String(selectedIndex)}
      aria-invalid={invalid}
      onChange={(event) =>
        onChange(event.currentTarget.value === '' ? undefined : shape.options[Number(event.currentTarget.value)])
      }
      className={cn('max-w-full', selectedIndex < 0 && 'text-faint')}
    >
      <option value="">{emptyLabel}</option>
      {shape.options.map((option, index) => (
        <option key={formatValue(option)} value={index} className="text-ink">
          {formatValue(option)}
        </option>
      ))}
    </Select>
  );
}

const CodeEditor = lazy(() => import('./code-editor'));

interface CodeFieldProps {
  text: string;
  onText: (text: string) => void;
  label: string;
  language: string;
  placeholder: string;
}

/** Edits code. Keeps the line ends of the original, although the editor only knows line feeds. */
export function CodeField({ text, onText, label, language, placeholder }: CodeFieldProps): ReactNode {
  const hasFocus = useRef(false);
  const displayText = withLineFeeds(text);
  const write = (next: string) => {
    if (next !== displayText) onText(withLineEndsOf(text, next));
  };
  return (
    <div
      className={cn(
        'overflow-hidden rounded-lg border bg-surface transition-colors',
        'focus-within:border-accent hover:border-strong-line',
      )}
    >
      <Suspense
        fallback={
          // Typing may start before the editor has loaded; it continues there.
          <TextArea
            rows={3}
            aria-label={label}
            value={displayText}
            placeholder={placeholder}
            onChange={(event) => write(event.target.value)}
            onFocus={() => (hasFocus.current = true)}
            onBlur={() => (hasFocus.current = false)}
            className="block border-0 font-mono text-[13px] whitespace-pre focus-visible:outline-none"
          />
        }
      >
        <CodeEditor
          text={displayText}
          onText={write}
          label={label}
          language={language}
          placeholder={placeholder}
          hasFocusRef={hasFocus}
        />
      </Suspense>
    </div>
  );
}

export const withLineFeeds = (text: string): string => text.replaceAll(/\r\n?/g, '\n');

/** Convert line feeds to the line ends that `original` mostly uses. */
export function withLineEndsOf(original: string, text: string): string {
  const lineEndCount = original.split('\n').length - 1;
  const crlfCount = original.split('\r\n').length - 1;
  return crlfCount > lineEndCount - crlfCount ? text.replaceAll('\n', '\r\n') : text;
}

const JsonEditor = lazy(() => import('./json-editor'));

interface JsonFieldProps {
  /** Undefined: unset. */
  value: unknown;
  onChange: (value: unknown) => void;
  label: string;
  placeholder?: string;
  /** Error of a valid JSON value, or null. */
  validate?: (value: unknown) => string | null;
}

const NO_ERROR = (): null => null;

/** Edits a value as JSON. Invalid text stays in the editor, marked, while the last valid value is kept. */
export function JsonField({ value, onChange, label, placeholder, validate = NO_ERROR }: JsonFieldProps): ReactNode {
  const hasFocus = useRef(false);
  const { text, error: draftError, change } = useJsonDraft(value, onChange, validate);
  const placeholderProps = placeholder === undefined ? {} : { placeholder };
  return (
    <div>
      <div
        className={cn(
          'overflow-hidden rounded-lg border bg-surface transition-colors',
          'focus-within:border-accent hover:border-strong-line',
          draftError && 'border-bad focus-within:border-bad hover:border-bad',
        )}
      >
        <Suspense
          fallback={
            // Typing may start before the editor has loaded; it continues there.
            <TextArea
              rows={1}
              aria-label={label}
              value={text}
              onChange={(event) => change(event.target.value)}
              onFocus={() => (hasFocus.current = true)}
              onBlur={() => (hasFocus.current = false)}
              className="block min-h-8 border-0 font-mono text-[13px] focus-visible:outline-none"
              {...placeholderProps}
            />
          }
        >
          <JsonEditor text={text} onText={change} label={label} hasFocusRef={hasFocus} {...placeholderProps} />
        </Suspense>
      </div>
      {draftError && <p className="mt-1 text-xs text-bad wrap-anywhere">{draftError}</p>}
    </div>
  );
}

/** State of a JSON text field: invalid text stays as a draft while the last valid value is kept. */
export function useJsonDraft(
  value: unknown,
  onChange: (value: unknown) => void,
  validate: (value: unknown, text: string) => string | null,
): { text: string; error: string | null; change: (next: string) => void } {
  const [draft, setDraft] = useState<string | null>(null);
  const parsedDraft = draft === null ? null : parseJson(draft, validate);
  // A draft that parses to another value is outdated.
  const isDraftCurrent =
    draft !== null && parsedDraft !== null && (parsedDraft.error !== null || isEqual(parsedDraft.value, value));
  const text = isDraftCurrent ? draft : value === undefined ? '' : JSON.stringify(value, null, 2);
  const error = isDraftCurrent ? parsedDraft.error : null;
  const change = (next: string): void => {
    const parsed = parseJson(next, validate);
    setDraft(next);
    if (parsed.error === null && !isEqual(parsed.value, value)) onChange(parsed.value);
  };
  return { text, error, change };
}

function parseJson(
  text: string,
  validate: (value: unknown, text: string) => string | null,
): { value: unknown; error: string | null } {
  if (!text.trim()) return { value: undefined, error: null };
  try {
    const value = JSON.parse(text) as unknown;
    return { value, error: validate(value, text) };
  } catch {
    return { value: undefined, error: 'Invalid JSON.' };
  }
}
