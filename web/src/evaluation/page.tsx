/** /evaluations/:id: one evaluation; how it goes, its figures, its results, and each of them. */
import { useQuery } from '@tanstack/react-query';
import { useCallback, useMemo, useState, type ReactNode } from 'react';
import { useSearchParams } from 'wouter';
import { useTitle } from '@/lib/hooks';
import { summary as summaryOf } from '@/evaluations/queries';
import { isOpen, titleOf } from '@/evaluations/words';
import { Problem, Spinner } from '@/components/status';
import { Button } from '@/components/button';
import { address, readAddress, type Ask, type Asked } from './asked';
import { Drill } from './drill';
import { Header } from './header';
import { Made } from './made';
import { ProgressPart } from './progress-part';
import { Results } from './results';
import { SummaryPart } from './summary-part';
import { useLive } from './use-live';

export default function EvaluationPage({ id }: { id: string }): ReactNode {
  const { evaluation, error, retry, progress } = useLive(id);
  useTitle(evaluation ? titleOf(evaluation) : 'Evaluation');
  const { asked, ask } = useAsked();
  // As a state, not a ref: the table in it wants to know it.
  const [box, setBox] = useState<HTMLDivElement | null>(null);
  const figures = useQuery({ ...summaryOf(id, asked.slice), enabled: evaluation !== undefined });
  if (error && !evaluation) return <div className="p-4"><Problem error={error}><Button size="small" onClick={retry}>Try again</Button></Problem></div>;
  if (!evaluation) return <div className="p-6"><Spinner /></div>;
  return (
    <div ref={setBox} className="@container h-full overflow-y-auto [overflow-anchor:none]">
      <div data-above>
        <Header evaluation={evaluation} />
        {(isOpen(evaluation.state) || evaluation.reason) && <ProgressPart evaluation={evaluation} progress={progress} />}
        <SummaryPart evaluation={evaluation} summary={figures.data} error={figures.error} slice={asked.slice} onSlice={(slice) => ask({ ...asked, slice })} onShow={(what) => ask({ ...asked, ...what })} />
        <Made evaluation={evaluation} />
      </div>
      <Results evaluation={evaluation} asked={asked} ask={ask} box={box} />
      {asked.cell && <Drill evaluation={evaluation} asked={asked} cell={asked.cell} onCell={(cell) => ask({ ...asked, cell }, { replace: true })} onClose={() => ask({ ...asked, cell: null })} />}
    </div>
  );
}

/** What is asked, as the address says it; to ask something else is to go there. */
function useAsked(): { asked: Asked; ask: Ask } {
  const [params, setParams] = useSearchParams();
  const text = String(params);
  const asked = useMemo(() => readAddress(new URLSearchParams(text)), [text]);
  const ask = useCallback<Ask>((next, { replace = false } = {}) => setParams(address(next), { replace }), [setParams]);
  return { asked, ask };
}
