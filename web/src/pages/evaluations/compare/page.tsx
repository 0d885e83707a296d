/** /evaluations/compare: candidate against base, with verdicts and changed rows. */
import { useQueries, useQuery } from '@tanstack/react-query';
import { ArrowRight, ArrowLeftRight } from 'lucide-react';
import { useEffect, type ReactNode, useState } from 'react';
import { Link, useSearchParams } from 'wouter';
import { completeStep } from '@/app/tour/progress';
import { Button } from '@/components/button';
import { SegmentedControl } from '@/components/form-fields';
import { parsePreview, PreviewCell } from '@/components/preview';
import { Badge, EmptyState, LoadError, ErrorMessage, Spinner } from '@/components/status';
import { cn } from '@/lib/cn';
import { pluralize } from '@/lib/format';
import { useTitle } from '@/lib/hooks';
import { safeProse } from '@/lib/safe-text';
import { ScoreBadge } from '@/pages/evaluations/badges';
import { evaluationTitle, formatChange, formatPoints } from '@/pages/evaluations/format';
import {
  evaluationQuery,
  comparisonQuery,
  type ResultRow,
  comparisonRowQuery,
  regressionsQuery,
} from '@/pages/evaluations/queries';
import { parseSide, verdict, type EvaluatorComparison } from './comparison';
import { Scatter } from './scatter';

export default function ComparePage(): ReactNode {
  useTitle('Compare');
  const [params, setParams] = useSearchParams();
  const base = params.get('base') ?? '';
  const candidate = params.get('candidate') ?? '';
  const evaluatorName = params.get('evaluator');
  const { data, error, refetch } = useQuery({
    ...comparisonQuery(base, candidate),
    enabled: Boolean(base && candidate),
  });
  useEffect(() => {
    if (data) completeStep('worse');
  }, [data]);
  if (!base || !candidate) {
    return (
      <EmptyState title="Nothing to compare">
        Open an{' '}
        <Link href="/evaluations" className="text-accent underline">
          evaluation
        </Link>{' '}
        and choose “Compare with…”.
      </EmptyState>
    );
  }
  const evaluator = data?.evaluators.find(({ name }) => name === evaluatorName) ?? data?.evaluators[0];
  const swapSides = () =>
    setParams({ base: candidate, candidate: base, ...(evaluatorName ? { evaluator: evaluatorName } : {}) });
  const choose = (name: string) => setParams({ base, candidate, evaluator: name }, { replace: true });
  return (
    <div className="@container h-full overflow-y-auto">
      <header className="flex flex-wrap items-center gap-x-3 gap-y-2 border-b bg-surface px-4 py-3 sm:px-6">
        <h1 className="text-base font-semibold">Compare</h1>
        <div className="flex min-w-0 grow flex-wrap items-center gap-2">
          <Sides base={base} candidate={candidate} />
        </div>
        <Button size="small" onClick={swapSides}>
          <ArrowLeftRight aria-hidden className="size-3.5" />
          Swap
        </Button>
      </header>
      <div className="mx-auto flex max-w-6xl flex-col gap-5 px-4 py-4 sm:px-6">
        {error && <LoadError error={error} onRetry={refetch} />}
        {!data && !error && <Spinner />}
        {data && (
          <Notes
            changed={data.changed_count ?? 0}
            onlyInBase={data.only_in_base ?? []}
            onlyInCandidate={data.only_in_candidate ?? []}
          />
        )}
        {data && data.evaluators.length === 0 && (
          <EmptyState title="Nothing to compare">These two variants have no evaluator in common.</EmptyState>
        )}
        {data && data.evaluators.length > 0 && (
          <Verdicts
            evaluators={data.evaluators}
            margin={data.margin}
            selected={evaluator?.name ?? ''}
            onChoose={choose}
          />
        )}
        {data && evaluator && (
          <section aria-label="Rows" className="min-w-0">
            <div className="mb-3 flex flex-wrap items-center gap-3">
              <h2 className="font-semibold">Row by row</h2>
              {data.evaluators.length > 1 && data.evaluators.length <= 5 && (
                <SegmentedControl
                  label="Evaluator"
                  options={Object.fromEntries(data.evaluators.map(({ name }) => [name, name]))}
                  value={evaluator.name}
                  onChange={choose}
                />
              )}
            </div>
            <div className="grid items-start gap-5 @4xl:grid-cols-[minmax(0,24rem)_minmax(0,1fr)]">
              <Scatter base={base} candidate={candidate} evaluator={evaluator.name} changed={data.changed ?? []} />
              <div className="flex min-w-0 flex-col gap-5">
                <Changes
                  key={`lost ${evaluator.name}`}
                  kind="regressions"
                  count={evaluator.regressions}
                  base={base}
                  candidate={candidate}
                  evaluator={evaluator.name}
                />
                <Changes
                  key={`fixed ${evaluator.name}`}
                  kind="fixes"
                  count={evaluator.fixes}
                  base={base}
                  candidate={candidate}
                  evaluator={evaluator.name}
                />
              </div>
            </div>
          </section>
        )}
      </div>
    </div>
  );
}

function Sides({ base, candidate }: { base: string; candidate: string }): ReactNode {
  const sides = [parseSide(base), parseSide(candidate)];
  const [first, second] = useQueries({
    queries: sides.map(({ id }) => evaluationQuery(id)),
    combine: (results) => results.map(({ data }) => data),
  });
  const sideLink = (sideIndex: 0 | 1) => {
    const evaluation = sideIndex === 0 ? first : second;
    const side = sides[sideIndex];
    return (
      <Link
        href={`/evaluations/${side?.id ?? ''}`}
        dir="auto"
        className="min-w-0 rounded-lg border px-2 py-1 text-[13px] hover:border-strong-line"
      >
        <span className="text-xs text-faint">{sideIndex === 0 ? 'Base' : 'Candidate'} </span>
        <span className="font-medium wrap-anywhere">
          {safeProse(side?.variant ?? evaluation?.variants[0]?.name ?? '')}
        </span>
        {evaluation && <span className="wrap-anywhere text-muted"> {safeProse(evaluationTitle(evaluation))}</span>}
      </Link>
    );
  };
  return (
    <>
      {sideLink(0)}
      <ArrowRight role="img" aria-label="compared with" className="size-4 shrink-0 text-faint" />
      {sideLink(1)}
    </>
  );
}

/** Rows that are in no figure. */
function Notes({
  changed,
  onlyInBase,
  onlyInCandidate,
}: {
  changed: number;
  onlyInBase: readonly string[];
  onlyInCandidate: readonly string[];
}): ReactNode {
  const notes = [
    changed > 0 &&
      `${pluralize(changed, 'row')} changed between the two test set revisions` +
        ` and ${changed === 1 ? 'is' : 'are'} not compared.`,
    onlyInBase.length > 0 && `Evaluators only in base: ${onlyInBase.join(', ')}.`,
    onlyInCandidate.length > 0 && `Evaluators only in candidate: ${onlyInCandidate.join(', ')}.`,
  ].filter(Boolean);
  return (
    notes.length > 0 && (
      <p className="rounded-lg bg-warn-soft px-3 py-2 text-[13px] wrap-anywhere text-warn">{notes.join(' ')}</p>
    )
  );
}

const INITIAL_ROWS = 5;

interface ChangesProps {
  kind: 'regressions' | 'fixes';
  count: number;
  base: string;
  candidate: string;
  evaluator: string;
}

const TITLES = { regressions: 'Regressed', fixes: 'Fixed' };
const HINTS = {
  regressions: 'Passed in base, fails in candidate.',
  fixes: 'Failed in base, passes in candidate.',
};
const EMPTY_TEXTS = { regressions: 'No regressions.', fixes: 'No fixes.' };

/** Rows that regressed or were fixed, with both answers. */
export function Changes({ kind, count, base, candidate, evaluator }: ChangesProps): ReactNode {
  const isRegression = kind === 'regressions';
  // Fixed rows are the regressions of the opposite direction.
  const [side, other] = isRegression ? [candidate, base] : [base, candidate];
  const { data, error } = useQuery({ ...regressionsQuery(side, other, evaluator), enabled: count > 0 });
  const [maxRows, setMaxRows] = useState(INITIAL_ROWS);
  const rows = data ? firstCellOfEachRow(data.data) : [];
  return (
    <section aria-label={TITLES[kind]} className="min-w-0">
      <h3 className="font-semibold">
        {TITLES[kind]} <span className="font-normal text-muted tabular-nums">{count.toLocaleString('en')}</span>
      </h3>
      <p className="mb-2 text-[13px] text-muted">{count > 0 ? HINTS[kind] : EMPTY_TEXTS[kind]}</p>
      {error && <ErrorMessage error={error} />}
      {count > 0 && !data && !error && <Spinner />}
      <ul className="flex flex-col gap-2">
        {rows.slice(0, maxRows).map((row) => (
          <Change
            key={row.row}
            row={row}
            isRegression={isRegression}
            base={base}
            candidate={candidate}
            evaluator={evaluator}
          />
        ))}
      </ul>
      {rows.length > maxRows && (
        <Button size="small" variant="quiet" className="mt-2" onClick={() => setMaxRows(maxRows + 20)}>
          Show {Math.min(20, rows.length - maxRows)} more
        </Button>
      )}
      {data?.next && maxRows >= rows.length && (
        <p className="mt-2 text-xs text-faint">
          More rows changed. To see them all, filter the results of the evaluation.
        </p>
      )}
    </section>
  );
}

/** The first repeat of each row. */
const firstCellOfEachRow = (cells: readonly ResultRow[]): ResultRow[] =>
  [...new Map(cells.toReversed().map((cell) => [cell.row, cell])).values()].toReversed();

function Change({
  row,
  isRegression,
  base,
  candidate,
  evaluator,
}: {
  row: ResultRow;
  isRegression: boolean;
  base: string;
  candidate: string;
  evaluator: string;
}): ReactNode {
  const { data: result } = useQuery(comparisonRowQuery(isRegression ? base : candidate, row.row));
  const [before, after] = isRegression ? [result, row] : [row, result];
  return (
    <li className="min-w-0 rounded-xl border bg-surface p-3">
      <p dir="auto" className="mb-2 line-clamp-3 wrap-anywhere text-muted">
        <span className="sr-only">Input: </span>
        {safeProse(parsePreview(row.in).text ?? '') || row.row}
      </p>
      <div className="grid gap-3 @2xl:grid-cols-2">
        <Answer title="Base" side={base} cell={before} evaluator={evaluator} />
        <Answer title="Candidate" side={candidate} cell={after} evaluator={evaluator} />
      </div>
    </li>
  );
}

function Answer({
  title,
  side,
  cell,
  evaluator,
}: {
  title: string;
  side: string;
  cell: ResultRow | null | undefined;
  evaluator: string;
}): ReactNode {
  const score = cell?.scores.find(({ evaluator: name }) => name === evaluator);
  return (
    <section aria-label={`${title} output`} className="min-w-0 rounded-lg bg-canvas p-2">
      <div className="mb-1 flex items-center gap-2 text-xs text-muted">
        {title}
        {score && <ScoreBadge score={score} />}
        <span className="grow" />
        {cell && (
          <Link
            href={`/evaluations/${parseSide(side).id}?cell=${cell.id}`}
            className="hover:text-accent hover:underline"
          >
            Open
          </Link>
        )}
      </div>
      {cell === undefined && <Spinner />}
      {cell === null && <p className="text-faint">No result.</p>}
      {cell &&
        (cell.error ? (
          <p dir="auto" className="wrap-anywhere text-bad">
            {safeProse(cell.error.message)}
          </p>
        ) : (
          <PreviewCell preview={parsePreview(cell.out)} label={`${title} output`} />
        ))}
    </section>
  );
}

const VERDICT_LABELS = { worse: 'Worse', better: 'Better', same: 'Same', unclear: 'Unclear' };
const TONES = { worse: 'bad', better: 'good', same: 'plain', unclear: 'warn' } as const;
const FILLS = {
  worse: 'fill-bad stroke-bad',
  better: 'fill-good stroke-good',
  same: 'fill-muted stroke-muted',
  unclear: 'fill-warn stroke-warn',
};

interface VerdictsProps {
  evaluators: readonly EvaluatorComparison[];
  margin: number;
  selected: string;
  onChoose: (name: string) => void;
}

/** One sentence for each evaluator, with the difference and its interval. */
export function Verdicts({ evaluators, margin, selected, onChoose }: VerdictsProps): ReactNode {
  const maxMagnitude = (measure: EvaluatorComparison['measure']) =>
    Math.max(
      margin * 2,
      0.05,
      ...evaluators
        .filter((comparison) => comparison.measure === measure)
        .flatMap(({ difference, ci }) => [difference ?? 0, ...(ci ?? [])].map(Math.abs)),
    );
  const scaleMax = { pass_rate: maxMagnitude('pass_rate'), mean: maxMagnitude('mean') };
  return (
    <section aria-label="Verdicts" className="overflow-hidden rounded-xl border bg-surface">
      <ul>
        {evaluators.map((comparison) => (
          <li
            key={comparison.name}
            className={cn(
              'border-b last:border-0',
              comparison.name === selected && evaluators.length > 1 && 'bg-accent-soft/40',
            )}
          >
            <button
              type="button"
              aria-pressed={comparison.name === selected}
              onClick={() => onChoose(comparison.name)}
              className={cn(
                'grid w-full items-center gap-x-4 gap-y-1 px-4 py-3 text-left',
                '-outline-offset-2 hover:bg-sunken/60 @3xl:grid-cols-[minmax(0,1fr)_18rem]',
              )}
            >
              <span className="min-w-0">
                <span className="flex flex-wrap items-center gap-2">
                  <Badge tone={TONES[comparison.verdict]}>{VERDICT_LABELS[comparison.verdict]}</Badge>
                  <bdi className="font-medium wrap-anywhere">{safeProse(comparison.name)}</bdi>
                </span>
                <span className="block text-[13px] text-muted">{verdict(comparison)}</span>
                <span className="block text-xs text-faint">{comparisonFacts(comparison)}</span>
              </span>
              <Difference comparison={comparison} margin={margin} scaleMax={scaleMax[comparison.measure]} />
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

const TEST_NAMES: Record<string, string> = { 'mcnemar-exact': 'exact McNemar' };

function comparisonFacts(comparison: EvaluatorComparison): string {
  const { p_adjusted: p, test, unpaired: unpairedCount, score } = comparison;
  return [
    p !== null && `p ${p < 0.001 ? '< 0.001' : `= ${p.toFixed(3)}`} (${TEST_NAMES[test] ?? 'paired bootstrap'}, Holm)`,
    score && `mean score ${formatChange(score.difference)}`,
    unpairedCount > 0 && pluralize(unpairedCount, 'unmatched row'),
  ]
    .filter(Boolean)
    .join(' · ');
}

const PLOT_WIDTH = 288;
const PLOT_HEIGHT = 40;
const MIDDLE = 16;

/** Interval around zero; grey if not significant. */
function Difference({
  comparison,
  margin,
  scaleMax,
}: {
  comparison: EvaluatorComparison;
  margin: number;
  scaleMax: number;
}): ReactNode {
  const { difference, ci, measure } = comparison;
  if (difference === null || !ci) return <span aria-hidden />;
  const format = measure === 'pass_rate' ? formatPoints : formatChange;
  const toX = (value: number): number =>
    PLOT_WIDTH / 2 + (Math.max(-scaleMax, Math.min(scaleMax, value)) / scaleMax) * (PLOT_WIDTH / 2 - 10);
  const label = `Difference ${format(difference)}, interval ${format(ci[0])} to ${format(ci[1])}`;
  return (
    <svg role="img" aria-label={label} viewBox={`0 0 ${PLOT_WIDTH} ${PLOT_HEIGHT}`} className="block w-full max-w-72">
      <title>{label}</title>
      <rect x={toX(-margin)} y={4} width={toX(margin) - toX(-margin)} height={24} className="fill-sunken" />
      <line x1={PLOT_WIDTH / 2} x2={PLOT_WIDTH / 2} y1={2} y2={30} className="stroke-strong-line" />
      <g className={FILLS[comparison.verdict]} strokeWidth={2}>
        <line x1={toX(ci[0])} x2={toX(ci[1])} y1={MIDDLE} y2={MIDDLE} />
        <line x1={toX(ci[0])} x2={toX(ci[0])} y1={MIDDLE - 5} y2={MIDDLE + 5} />
        <line x1={toX(ci[1])} x2={toX(ci[1])} y1={MIDDLE - 5} y2={MIDDLE + 5} />
        <circle cx={toX(difference)} cy={MIDDLE} r={4} />
      </g>
      <g className="fill-faint text-[10px]">
        <text x={0} y={PLOT_HEIGHT - 1}>
          worse
        </text>
        <text x={PLOT_WIDTH / 2} y={PLOT_HEIGHT - 1} textAnchor="middle">
          0
        </text>
        <text x={PLOT_WIDTH} y={PLOT_HEIGHT - 1} textAnchor="end">
          better
        </text>
      </g>
    </svg>
  );
}
