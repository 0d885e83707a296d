/** JSON as somebody writes it. What cannot be read yet stays, marked, and the form around it waits. */
import {
  lazy,
  Suspense,
  useEffect,
  useEffectEvent,
  useRef,
  useState,
  type ReactNode,
  createContext,
  useContext,
  useId,
  useMemo,
} from 'react';
import { TextArea } from '@/components/form-fields';
import { isEqual } from '@/components/forms/values';
import { cn } from '@/lib/cn';

const JsonEditor = lazy(() => import('@/components/forms/json-editor'));

interface Props {
  label: string;
  /** Undefined: nothing is there. */
  value: unknown;
  onChange: (value: unknown) => void;
  placeholder?: string;
  /** What is wrong with a value that is JSON; null when nothing is. */
  fault?: (value: unknown) => string | null;
  /** Hears whether what is written cannot be read. */
  onWrong?: (isWrong: boolean) => void;
  /** Does one write here at once? */
  focus?: boolean;
}

const NO_ERROR = (): null => null;

export function JsonInput({
  label,
  value,
  onChange,
  placeholder = '',
  fault = NO_ERROR,
  onWrong,
  focus = false,
}: Props): ReactNode {
  const writing = useRef(focus);
  const [draft, setDraft] = useState<string | null>(null);
  const kept = draft === null ? null : parseJson(draft, fault);
  // A draft that says something else than the value was left behind by a change from elsewhere.
  const holds = draft !== null && kept !== null && (kept.wrong !== null || isEqual(kept.value, value));
  const text = holds ? draft : value === undefined ? '' : JSON.stringify(value, null, 2);
  const wrong = holds ? kept.wrong : null;
  const isWrong = wrong !== null;
  useInputError(isWrong);
  const hear = useEffectEvent((now: boolean) => onWrong?.(now));
  useEffect(() => hear(isWrong), [isWrong]);
  const change = (next: string): void => {
    const now = parseJson(next, fault);
    setDraft(next);
    if (now.wrong === null && !isEqual(now.value, value)) onChange(now.value);
  };
  return (
    <div>
      <div
        className={cn(
          'overflow-hidden rounded-lg border bg-surface focus-within:border-accent',
          wrong && '!border-bad',
        )}
      >
        <Suspense
          fallback={
            <TextArea
              rows={2}
              aria-label={label}
              value={text}
              placeholder={placeholder}
              onChange={(event) => change(event.target.value)}
              className="block border-0 font-mono text-[13px]"
            />
          }
        >
          <JsonEditor text={text} onText={change} label={label} placeholder={placeholder} writing={writing} />
        </Suspense>
      </div>
      {wrong && (
        <p role="alert" className="mt-1 text-xs text-bad wrap-anywhere">
          {wrong}
        </p>
      )}
    </div>
  );
}

function parseJson(text: string, fault: (value: unknown) => string | null): { value: unknown; wrong: string | null } {
  if (!text.trim()) return { value: undefined, wrong: null };
  try {
    const value = JSON.parse(text) as unknown;
    return { value, wrong: fault(value) ?? inexactNumber(text) };
  } catch {
    return { value: undefined, wrong: 'This is not JSON yet.' };
  }
}

/** A number that this page would change: a browser knows no more than 15 digits or so. */
export function inexactNumber(text: string): string | null {
  const numbers = text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""').match(/-?\d[\d.eE+-]*/g) ?? [];
  const found = numbers.find((one) => /^-?\d+$/.test(one) && !Number.isSafeInteger(Number(one)));
  return found === undefined
    ? null
    : `The page cannot keep ${found.slice(0, 40)} exactly. Import it from a file, or write it as a text.`;
}

type ReportError = (id: string, isWrong: boolean) => void;

/** What is written and cannot be read yet: a form that holds such a text is not taken. */
export const InputErrorsContext = createContext<ReportError>(() => undefined);

/** How many fields are wrong just now, and what hears of them. */
export function useInputErrors(): [number, ReportError] {
  const [wrong, setWrong] = useState<ReadonlySet<string>>(new Set());
  const report = useMemo(
    (): ReportError => (id, isWrong) =>
      setWrong((now) => {
        if (now.has(id) === isWrong) return now;
        const next = new Set(now);
        if (isWrong) next.add(id);
        else next.delete(id);
        return next;
      }),
    [],
  );
  return [wrong.size, report];
}

/** Tell the form around whether this field is wrong. */
export function useInputError(isWrong: boolean): void {
  const id = useId();
  const report = useContext(InputErrorsContext);
  useEffect(() => {
    report(id, isWrong);
    return () => report(id, false);
  }, [id, isWrong, report]);
}
