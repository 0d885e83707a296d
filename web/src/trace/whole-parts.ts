/** The parts of a record: as they came, and whole once somebody asks for them. */
import { useCallback, useEffect, useRef, useState } from 'react';
import { tellError } from '@/components/toast';
import { pieceOf, whole } from './pieces';
import type { Part, Span } from './queries';

export interface Parts {
  span: Span;
  /** How many characters there are of a part that is not shown whole; undefined: it is. */
  cut: (part: Part) => number | undefined;
  /** How much of a part has been got that is on its way; undefined: it is not. */
  share: (part: Part) => number | undefined;
  load: (part: Part) => void;
}

export function useParts(record: Span): Parts {
  const [got, setGot] = useState<{ of: Span; parts: ReadonlyMap<Part, unknown> }>({ of: record, parts: new Map() });
  const [shares, setShares] = useState<ReadonlyMap<Part, number>>(() => new Map());
  const leave = useRef(new AbortController());
  useEffect(() => {
    const ended = new AbortController();
    leave.current = ended;
    return () => ended.abort();
  }, []);
  const parts = got.of === record ? got.parts : NONE;
  const load = useCallback(
    (part: Part) => {
      const { signal } = leave.current;
      const tell = (share: number | null) => setShares((now) => new Map([...[...now].filter(([one]) => one !== part), ...(share === null ? [] : [[part, share] as const])]));
      tell(0);
      whole(pieceOf(record.trace_id, record.span_id, part, signal), tell)
        .then((value) => setGot((now) => ({ of: record, parts: new Map([...(now.of === record ? now.parts : NONE), [part, value]]) })))
        .catch((error: unknown) => signal.aborted || tellError(error))
        .finally(() => tell(null));
    },
    [record],
  );
  return {
    span: parts.size ? { ...record, ...(Object.fromEntries(parts) as Partial<Span>) } : record,
    cut: (part) => (parts.has(part) || !Object.hasOwn(record.cut ?? {}, part) ? undefined : record.cut?.[part]),
    share: (part) => shares.get(part),
    load,
  };
}

const NONE: ReadonlyMap<Part, unknown> = new Map();
