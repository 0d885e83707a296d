/** What is asked, as the address says it; to ask something else is to go there. */
import { useCallback, useMemo } from 'react';
import { useSearchParams } from 'wouter';
import { address, readAddress, type Asked } from './asked';

export interface Asking {
  asked: Asked;
  /** The saved view that was chosen last, whatever was changed since. */
  view: string | null;
  /** `replace`: no step that Back takes back, as while somebody types. */
  ask: (asked: Asked, options?: { view?: string | null; replace?: boolean }) => void;
}

export function useAsked(): Asking {
  const [params, setParams] = useSearchParams();
  const text = String(params);
  const asked = useMemo(() => readAddress(new URLSearchParams(text)), [text]);
  const view = params.get('view');
  const ask = useCallback<Asking['ask']>(
    (next, { view: chosen = view, replace = false } = {}) => {
      const made = address(next);
      if (chosen) made.set('view', chosen);
      setParams(made, { replace });
    },
    [view, setParams],
  );
  return { asked, view, ask };
}
