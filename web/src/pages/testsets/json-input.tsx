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
import { useJsonDraft } from '@/components/forms/controls';
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
  onValidityChange?: (isInvalid: boolean) => void;
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
  onValidityChange,
  focus = false,
}: Props): ReactNode {
  const hasFocus = useRef(focus);
  const {
    text,
    error: draftError,
    change,
  } = useJsonDraft(value, onChange, (next, nextText) => validate(next) ?? inexactNumberError(nextText));
  const isInvalid = draftError !== null;
  useInputError(isInvalid);
  const reportInvalid = useEffectEvent((isNowInvalid: boolean) => onValidityChange?.(isNowInvalid));
  useEffect(() => reportInvalid(isInvalid), [isInvalid]);
  return (
    <div>
      <div
        className={cn(
          'overflow-hidden rounded-lg border bg-surface focus-within:border-accent',
          draftError && '!border-bad',
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
          <JsonEditor text={text} onText={change} label={label} placeholder={placeholder} hasFocusRef={hasFocus} />
        </Suspense>
      </div>
      {draftError && (
        <p role="alert" className="mt-1 text-xs text-bad wrap-anywhere">
          {draftError}
        </p>
      )}
    </div>
  );
}

/** Error for a number that the browser would change; it keeps about 15 digits. */
export function inexactNumberError(text: string): string | null {
  const numbers = text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""').match(/-?\d[\d.eE+-]*/g) ?? [];
  const match = numbers.find((number) => /^-?\d+$/.test(number) && !Number.isSafeInteger(Number(number)));
  return match === undefined
    ? null
    : `${match.slice(0, 40)} is too large to edit here without losing digits.` +
        ' Import it from a file or enter it as text.';
}

type ReportError = (id: string, isInvalid: boolean) => void;

/** Counts invalid inputs of a form. */
export const InputErrorsContext = createContext<ReportError>(() => undefined);

/** Number of invalid inputs, and the function that reports them. */
export function useInputErrors(): [number, ReportError] {
  const [invalidIds, setInvalidIds] = useState<ReadonlySet<string>>(new Set());
  const report = useMemo(
    (): ReportError => (id, isInvalid) =>
      setInvalidIds((ids) => {
        if (ids.has(id) === isInvalid) return ids;
        const next = new Set(ids);
        if (isInvalid) next.add(id);
        else next.delete(id);
        return next;
      }),
    [],
  );
  return [invalidIds.size, report];
}

/** Report to the form whether this input is invalid. */
export function useInputError(isInvalid: boolean): void {
  const id = useId();
  const report = useContext(InputErrorsContext);
  useEffect(() => {
    report(id, isInvalid);
    return () => report(id, false);
  }, [id, isInvalid, report]);
}
