/** An evaluation as it goes on: while it runs its stream is followed, and its figures and results are read again as they grow. */
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { queryClient } from '@/api/queries';
import { evaluation as asked, type Evaluation } from '@/evaluations/queries';
import { isOpen } from '@/evaluations/words';
import { follow, type Progress } from './live';

/** Figures and results are read again at most so often, in milliseconds. */
const LOOK = 1500;

export interface Live {
  evaluation: Evaluation | undefined;
  error: Error | null;
  retry: () => void;
  /** Of the last moment, while it runs. */
  progress: Progress | null;
}

export function useLive(id: string): Live {
  const { data, error, refetch } = useQuery(asked(id));
  const [progress, setProgress] = useState<Progress | null>(null);
  const running = data !== undefined && isOpen(data.state);
  useEffect(() => {
    if (!running) return undefined;
    const left = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      timer = undefined;
      void queryClient.invalidateQueries({ queryKey: ['evaluation', id, 'summary'] });
      void queryClient.invalidateQueries({ queryKey: ['evaluation', id, 'results'] });
    };
    const keep = (what: Partial<Evaluation>) => queryClient.setQueryData(asked(id).queryKey, (known) => known && { ...known, ...what });
    void follow(
      id,
      (told) => {
        if (told.type === 'progress') {
          setProgress(told);
          keep({ done: told.done, failed: told.failed, errors: told.errors ?? 0, cost: told.cost ?? null });
          timer ??= setTimeout(look, LOOK);
        } else if (told.type === 'state') {
          keep({ state: told.state, reason: told.reason });
          if (!isOpen(told.state)) {
            void queryClient.invalidateQueries({ queryKey: ['evaluation', id] });
            void queryClient.invalidateQueries({ queryKey: ['evaluations'] });
          }
        }
      },
      left.signal,
    );
    return () => {
      left.abort();
      clearTimeout(timer);
      setProgress(null);
    };
  }, [id, running]);
  return { evaluation: data, error, retry: () => void refetch(), progress: running ? progress : null };
}
