/** What is written and cannot be read yet: a form that holds such a text is not taken. */
import { createContext, useContext, useEffect, useId, useMemo, useState } from 'react';

type Report = (id: string, isWrong: boolean) => void;

export const FaultsContext = createContext<Report>(() => undefined);

/** How many fields are wrong just now, and what hears of them. */
export function useFaults(): [number, Report] {
  const [wrong, setWrong] = useState<ReadonlySet<string>>(new Set());
  const report = useMemo(
    (): Report => (id, isWrong) =>
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
export function useFault(isWrong: boolean): void {
  const id = useId();
  const report = useContext(FaultsContext);
  useEffect(() => {
    report(id, isWrong);
    return () => report(id, false);
  }, [id, isWrong, report]);
}
