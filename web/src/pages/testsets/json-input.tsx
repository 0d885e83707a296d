/** JSON input of a form. Invalid text stays, marked, and blocks the form. */
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
  /** Undefined: empty. */
  value: unknown;
  onChange: (value: unknown) => void;
  placeholder?: string;
  /** Error of a valid JSON value, or null. */
  validate?: (value: unknown) => string | null;
  /** Called with whether the text is invalid. */
  onWrong?: (isWrong: boolean) => void;
  /** Whether it gets the focus. */
  focus?: boolean;
}

const NO_ERROR = (): null => null;

export function JsonInput({
  label,
  value,
  onChange,
  placeholder = '',
  validate = NO_ERROR,
  onWrong,
  focus = false,
}: Props): ReactNode {
  const writing = useRef(focus);
  const [draft, setDraft] = useState<string | null>(null);
  const kept = draft === null ? null : parseJson(draft, validate);
  // A draft that parses to another value is outdated.
  const holds = draft !== null && kept !== null && (kept.wrong !== null || isEqual(kept.value, value));
  const text = holds ? draft : value === undefined ? '' : JSON.stringify(value, null, 2);
  const wrong = holds ? kept.wrong : null;
  const isWrong = wrong !== null;
  useInputError(isWrong);
  const hear = useEffectEvent((now: boolean) => onWrong?.(now));
  useEffect(() => hear(isWrong), [isWrong]);
  const change = (next: string): void => {
    const now = parseJson(next, validate);
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

function parseJson(
  text: string,
  validate: (value: unknown) => string | null,
): { value: unknown; wrong: string | null } {
  if (!text.trim()) return { value: undefined, wrong: null };
  try {
    const value = JSON.parse(text) as unknown;
    return { value, wrong: validate(value) ?? inexactNumber(text) };
  } catch {
    return { value: undefined, wrong: 'This is not JSON yet.' };
  }
}

/** Error for a number that the browser would change; it keeps about 15 digits. */
export function inexactNumber(text: string): string | null {
  const numbers = text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""').match(/-?\d[\d.eE+-]*/g) ?? [];
  const match = numbers.find((one) => /^-?\d+$/.test(one) && !Number.isSafeInteger(Number(one)));
  return match === undefined
    ? null
    : `The page cannot keep ${match.slice(0, 40)} exactly. Import it from a file, or write it as a text.`;
}

type ReportError = (id: string, isWrong: boolean) => void;

/** Counts invalid inputs of a form. */
export const InputErrorsContext = createContext<ReportError>(() => undefined);

/** Number of invalid inputs, and the function that reports them. */
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

/** Report to the form whether this input is invalid. */
export function useInputError(isWrong: boolean): void {
  const id = useId();
  const report = useContext(InputErrorsContext);
  useEffect(() => {
    report(id, isWrong);
    return () => report(id, false);
  }, [id, isWrong, report]);
}
