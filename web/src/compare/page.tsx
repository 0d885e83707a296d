/** /evaluations/compare: a candidate beside a base. What got worse, how sure that is, and the rows behind it. */
import { useQueries, useQuery } from '@tanstack/react-query';
import { ArrowRight, ArrowLeftRight } from 'lucide-react';
import { useEffect, type ReactNode } from 'react';
import { Link, useSearchParams } from 'wouter';
import { useTitle } from '@/lib/hooks';
import { evaluation as evaluationOf } from '@/evaluations/queries';
import { titleOf } from '@/evaluations/words';
import { prose } from '@/lib/safe-text';
import { done } from '@/app/tour/progress';
import { pluralize } from '@/lib/format';
import { Empty, Problem, Spinner } from '@/components/status';
import { Button } from '@/components/button';
import { Segments } from '@/components/segmented-control';
import { Changes } from './changes';
import { split } from './pairing';
import { comparison } from './queries';
import { Scatter } from './scatter';
import { Verdicts } from './verdicts';

export default function ComparePage(): ReactNode {
  useTitle('Compare');
  const [params, setParams] = useSearchParams();
  const base = params.get('base') ?? '';
  const candidate = params.get('candidate') ?? '';
  const chosen = params.get('evaluator');
  const { data, error, refetch } = useQuery({ ...comparison(base, candidate), enabled: Boolean(base && candidate) });
  useEffect(() => {
    if (data) done('worse');
  }, [data]);
  if (!base || !candidate) {
    return <Empty title="Nothing to compare">Open an <Link href="/evaluations" className="text-accent underline">evaluation</Link> and choose “Compare with…”.</Empty>;
  }
  const evaluator = data?.evaluators.find(({ name }) => name === chosen) ?? data?.evaluators[0];
  const swap = () => setParams({ base: candidate, candidate: base, ...(chosen ? { evaluator: chosen } : {}) });
  const choose = (name: string) => setParams({ base, candidate, evaluator: name }, { replace: true });
  return (
    <div className="@container h-full overflow-y-auto">
      <header className="flex flex-wrap items-center gap-x-3 gap-y-2 border-b bg-surface px-4 py-3 sm:px-6">
        <h1 className="text-base font-semibold">Compare</h1>
        <div className="flex min-w-0 grow flex-wrap items-center gap-2">
          <Sides base={base} candidate={candidate} />
        </div>
        <Button size="small" onClick={swap}><ArrowLeftRight aria-hidden className="size-3.5" />Swap</Button>
      </header>
      <div className="mx-auto flex max-w-6xl flex-col gap-5 px-4 py-4 sm:px-6">
        {error && <Problem error={error}><Button size="small" onClick={() => void refetch()}>Try again</Button></Problem>}
        {!data && !error && <Spinner />}
        {data && <Notes changed={data.changed_count ?? 0} onlyInBase={data.only_in_base ?? []} onlyInCandidate={data.only_in_candidate ?? []} />}
        {data && data.evaluators.length === 0 && <Empty title="No evaluator is in both">They have no figure in common.</Empty>}
        {data && data.evaluators.length > 0 && <Verdicts evaluators={data.evaluators} margin={data.margin} chosen={evaluator?.name ?? ''} onChoose={choose} />}
        {data && evaluator && (
          <section aria-label="Rows" className="min-w-0">
            <div className="mb-3 flex flex-wrap items-center gap-3">
              <h2 className="font-semibold">Row by row</h2>
              {data.evaluators.length > 1 && data.evaluators.length <= 5 && (
                <Segments label="Evaluator" options={Object.fromEntries(data.evaluators.map(({ name }) => [name, name]))} value={evaluator.name} onChange={choose} />
              )}
            </div>
            <div className="grid items-start gap-5 @4xl:grid-cols-[minmax(0,24rem)_minmax(0,1fr)]">
              <Scatter base={base} candidate={candidate} evaluator={evaluator.name} changed={data.changed ?? []} />
              <div className="flex min-w-0 flex-col gap-5">
                <Changes key={`lost ${evaluator.name}`} kind="regressions" count={evaluator.regressions} base={base} candidate={candidate} evaluator={evaluator.name} />
                <Changes key={`fixed ${evaluator.name}`} kind="fixes" count={evaluator.fixes} base={base} candidate={candidate} evaluator={evaluator.name} />
              </div>
            </div>
          </section>
        )}
      </div>
    </div>
  );
}

function Sides({ base, candidate }: { base: string; candidate: string }): ReactNode {
  const sides = [split(base), split(candidate)];
  const [first, second] = useQueries({ queries: sides.map(({ id }) => evaluationOf(id)), combine: (all) => all.map(({ data }) => data) });
  const told = (place: 0 | 1) => {
    const known = place === 0 ? first : second;
    const side = sides[place];
    return (
      <Link href={`/evaluations/${side?.id ?? ''}`} dir="auto" className="min-w-0 rounded-lg border px-2 py-1 text-[13px] hover:border-strong-line">
        <span className="text-xs text-faint">{place === 0 ? 'Base' : 'Candidate'} </span>
        <span className="font-medium wrap-anywhere">{prose(side?.variant ?? known?.variants[0]?.name ?? '')}</span>
        {known && <span className="wrap-anywhere text-muted"> {prose(titleOf(known))}</span>}
      </Link>
    );
  };
  return <>{told(0)}<ArrowRight role="img" aria-label="with" className="size-4 shrink-0 text-faint" />{told(1)}</>;
}

/** What is in no figure. */
function Notes({ changed, onlyInBase, onlyInCandidate }: { changed: number; onlyInBase: readonly string[]; onlyInCandidate: readonly string[] }): ReactNode {
  const notes = [
    changed > 0 && `${pluralize(changed, 'row')} of both changed in between: in no figure here.`,
    onlyInBase.length > 0 && `Only in the base: ${onlyInBase.join(', ')}.`,
    onlyInCandidate.length > 0 && `Only in the candidate: ${onlyInCandidate.join(', ')}.`,
  ].filter(Boolean);
  return notes.length > 0 && <p className="rounded-lg bg-warn-soft px-3 py-2 text-[13px] wrap-anywhere text-warn">{notes.join(' ')}</p>;
}
