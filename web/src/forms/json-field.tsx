/** A value written as JSON. What cannot be read yet stays in the editor, marked, and the last value that could holds. */
import { lazy, Suspense, useRef, useState, type ReactNode } from 'react';
import { classes } from '@/lib/class-names';
import { TextArea } from '@/ui/fields';
import { same } from './values';

const JsonEditor = lazy(() => import('./json-editor'));

interface Props {
  /** Undefined: nothing is said. */
  value: unknown;
  onChange: (value: unknown) => void;
  label: string;
  placeholder?: string;
  /** What is wrong with a value that is JSON; null when nothing is. */
  fault?: (value: unknown) => string | null;
}

const fine = (): null => null;

export function JsonField({ value, onChange, label, placeholder, fault = fine }: Props): ReactNode {
  const writing = useRef(false);
  const [draft, setDraft] = useState<string | null>(null);
  const kept = draft === null ? null : read(draft, fault);
  // A draft that says something else than the value was left behind by a change from elsewhere.
  const holds = draft !== null && kept !== null && (kept.wrong !== null || same(kept.value, value));
  const text = holds ? draft : value === undefined ? '' : JSON.stringify(value, null, 2);
  const told = holds ? kept.wrong : null;

  const change = (next: string): void => {
    const now = read(next, fault);
    setDraft(next);
    if (now.wrong === null && !same(now.value, value)) onChange(now.value);
  };
  const hints = placeholder === undefined ? {} : { placeholder };
  return (
    <div>
      <div
        className={classes(
          'overflow-hidden rounded-lg border bg-surface transition-colors focus-within:border-accent hover:border-strong-line',
          told && 'border-bad focus-within:border-bad hover:border-bad',
        )}
      >
        <Suspense
          fallback={
            // One may write before the editor is there; it goes on where that ended.
            <TextArea
              rows={1}
              aria-label={label}
              value={text}
              onChange={(event) => change(event.target.value)}
              onFocus={() => (writing.current = true)}
              onBlur={() => (writing.current = false)}
              className="block !min-h-8 !border-0 font-mono text-[13px] focus-visible:outline-none"
              {...hints}
            />
          }
        >
          <JsonEditor text={text} onText={change} label={label} writing={writing} {...hints} />
        </Suspense>
      </div>
      {told && <p className="mt-1 text-xs text-bad wrap-anywhere">{told}</p>}
    </div>
  );
}

function read(text: string, fault: (value: unknown) => string | null): { value: unknown; wrong: string | null } {
  if (!text.trim()) return { value: undefined, wrong: null };
  try {
    const value = JSON.parse(text) as unknown;
    return { value, wrong: fault(value) };
  } catch {
    return { value: undefined, wrong: 'This is not JSON yet.' };
  }
}
