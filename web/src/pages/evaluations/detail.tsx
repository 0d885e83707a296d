/** /evaluations/:id: one evaluation with progress, summary, results and the result detail. */
import { useQuery } from '@tanstack/react-query';
import {
  CopyPlus,
  Download,
  GitCompareArrows,
  MoreHorizontal,
  RotateCw,
  Square,
  Users,
  ArrowLeftRight,
} from 'lucide-react';
import { useCallback, useMemo, useState, type ReactNode } from 'react';
import { useSearchParams, Link, useLocation } from 'wouter';
import { api } from '@/api/client';
import { queryClient } from '@/api/queries';
import { Button, IconButton } from '@/components/button';
import { CollapsibleSection } from '@/components/collapsible';
import { askConfirmation } from '@/components/confirm-dialog';
import { Dialog } from '@/components/dialog';
import { Select, LabeledField } from '@/components/form-fields';
import { JsonView } from '@/components/json-view';
import { DeleteMenuItem, Menu, MenuItem, MenuTitle } from '@/components/menu';
import { Loading, ErrorMessage } from '@/components/status';
import { showToast, showError } from '@/components/toast';
import { formatDateTime, formatTimeAgo, pluralize, formatDollars } from '@/lib/format';
import { useTitle } from '@/lib/hooks';
import { safeProse } from '@/lib/safe-text';
import { serverPath } from '@/lib/server-path';
import { formatMilliseconds } from '@/pages/traces/detail/timeline';
import { StateBadge, ProgressBar } from './badges';
import { isActive, evaluationTitle, formatTimeLeft, formatPace } from './format';
import { useLiveEvaluation, type Progress } from './live-progress';
import {
  evaluationSummaryQuery,
  type Evaluation,
  evaluationsOfTestsetQuery,
  resultsQueryParams,
  parseResultsQuery,
  type SetResultsQuery,
  type ResultsQuery,
} from './queries';
import { ResultDetail } from './result-detail';
import { Results } from './results';
import { SummarySection } from './summary';

export default function EvaluationPage({ id }: { id: string }): ReactNode {
  const { evaluation, error, retry, progress } = useLiveEvaluation(id);
  useTitle(evaluation ? evaluationTitle(evaluation) : 'Evaluation');
  const { query, setQuery } = useResultsQuery();
  // State instead of a ref, because the table inside needs the element.
  const [box, setBox] = useState<HTMLDivElement | null>(null);
  const figures = useQuery({ ...evaluationSummaryQuery(id, query.slice), enabled: evaluation !== undefined });
  if (error && !evaluation)
    return (
      <div className="p-4">
        <ErrorMessage error={error}>
          <Button size="small" onClick={retry}>
            Retry
          </Button>
        </ErrorMessage>
      </div>
    );
  if (!evaluation) return <Loading className="p-6" />;
  return (
    <div ref={setBox} className="@container h-full overflow-y-auto [overflow-anchor:none]">
      <div data-above>
        <EvaluationHeader evaluation={evaluation} />
        {(isActive(evaluation.state) || evaluation.reason) && (
          <ProgressSection evaluation={evaluation} progress={progress} />
        )}
        <SummarySection
          evaluation={evaluation}
          summary={figures.data}
          error={figures.error}
          slice={query.slice}
          onSlice={(slice) => setQuery({ ...query, slice })}
          onShow={(patch) => setQuery({ ...query, ...patch })}
        />
        <EvaluationSetup evaluation={evaluation} />
      </div>
      <Results evaluation={evaluation} query={query} setQuery={setQuery} box={box} />
      {query.cell && (
        <ResultDetail
          evaluation={evaluation}
          query={query}
          cell={query.cell}
          onCell={(cell) => setQuery({ ...query, cell }, { replace: true })}
          onClose={() => setQuery({ ...query, cell: null })}
        />
      )}
    </div>
  );
}

/** The results query in the URL, and the function that changes it. */
function useResultsQuery(): { query: ResultsQuery; setQuery: SetResultsQuery } {
  const [params, setParams] = useSearchParams();
  const text = String(params);
  const query = useMemo(() => parseResultsQuery(new URLSearchParams(text)), [text]);
  const setQuery = useCallback<SetResultsQuery>(
    (next, { replace = false } = {}) => setParams(resultsQueryParams(next), { replace }),
    [setParams],
  );
  return { query, setQuery };
}

const FORMAT_LABELS = {
  html: 'Report (HTML)',
  markdown: 'Summary (Markdown)',
  csv: 'Spreadsheet (CSV)',
  jsonl: 'All data (JSON Lines)',
  junit: 'CI report (JUnit)',
};

export function EvaluationHeader({ evaluation }: { evaluation: Evaluation }): ReactNode {
  const { id, state, errors } = evaluation;
  const [, navigate] = useLocation();
  const [comparing, setComparing] = useState(false);
  const path = { evaluation: id };
  const invalidate = () => queryClient.invalidateQueries({ queryKey: ['evaluation', id] });
  const cancel = () => api('post', '/api/evaluations/{evaluation}/cancel', { path }).then(invalidate).catch(showError);
  const rerun = (scope: 'failed' | 'errors' | 'all') =>
    api('post', '/api/evaluations/{evaluation}/rerun', { path, body: { which: scope } })
      .then(invalidate)
      .catch(showError);
  const remove = async () => {
    if (
      !(await askConfirmation({
        title: 'Delete this evaluation?',
        text: `“${evaluationTitle(evaluation)}” and its results and scores will be deleted. The test set is kept.`,
        act: 'Delete',
        danger: true,
      }))
    )
      return;
    await api('delete', '/api/evaluations/{evaluation}', { path });
    void queryClient.invalidateQueries({ queryKey: ['evaluations'] });
    showToast('Evaluation deleted.');
    navigate('/evaluations');
  };
  const save = (format: string) => window.location.assign(serverPath(`/api/evaluations/${id}/export?format=${format}`));
  const unfinishedCount = evaluation.total - evaluation.done;
  return (
    <header className="flex flex-wrap items-start gap-x-3 gap-y-2 border-b bg-surface px-4 py-3 sm:px-6">
      <div className="min-w-0 grow basis-72">
        <div className="flex flex-wrap items-center gap-x-2">
          <Link href="/evaluations" className="text-[13px] text-muted hover:text-accent">
            Evaluations
          </Link>
          <span aria-hidden className="text-faint">
            /
          </span>
          <h1 dir="auto" className="min-w-0 text-base font-semibold wrap-anywhere">
            {safeProse(evaluationTitle(evaluation))}
          </h1>
          <StateBadge state={state} reason={evaluation.reason} />
        </div>
        <Facts evaluation={evaluation} />
      </div>
      <div className="flex flex-wrap items-center gap-1.5">
        {isActive(state) && (
          <Button variant="danger" onClick={() => void cancel()}>
            <Square aria-hidden className="size-3.5" />
            Cancel
          </Button>
        )}
        {!isActive(state) && unfinishedCount > 0 && (
          <Button onClick={() => void rerun('failed')}>
            <RotateCw aria-hidden className="size-4" />
            Rerun failed
          </Button>
        )}
        <Button onClick={() => setComparing(true)}>
          <GitCompareArrows aria-hidden className="size-4" />
          Compare with…
        </Button>
        <Menu
          trigger={
            <Button>
              <Download aria-hidden className="size-4" />
              Export
            </Button>
          }
        >
          <MenuTitle>Export as</MenuTitle>
          {Object.entries(FORMAT_LABELS).map(([format, title]) => (
            <MenuItem key={format} onSelect={() => save(format)}>
              {title}
            </MenuItem>
          ))}
        </Menu>
        <Menu
          trigger={
            <IconButton label="More">
              <MoreHorizontal />
            </IconButton>
          }
        >
          <MenuItem
            icon={<RotateCw />}
            disabled={isActive(state) || errors === 0}
            onSelect={() => void rerun('errors')}
          >
            Rerun evaluator errors
          </MenuItem>
          <MenuItem icon={<RotateCw />} disabled={isActive(state)} onSelect={() => void rerun('all')}>
            Rerun all
          </MenuItem>
          <MenuItem icon={<CopyPlus />} onSelect={() => navigate(`/evaluations?new=1&like=${id}`)}>
            Duplicate…
          </MenuItem>
          <MenuItem icon={<Users />} disabled={isActive(state)} onSelect={() => navigate(`/reviews?new=1&run=${id}`)}>
            Create a review…
          </MenuItem>
          <DeleteMenuItem onSelect={() => void remove().catch(showError)} />
        </Menu>
      </div>
      {comparing && <CompareDialog evaluation={evaluation} onClose={() => setComparing(false)} />}
    </header>
  );
}

/** Test set, size, age, duration, cost and failures. */
function Facts({ evaluation }: { evaluation: Evaluation }): ReactNode {
  const { testset, failed, errors } = evaluation;
  return (
    <p className="mt-0.5 text-[13px] text-muted">
      <Link
        href={`/testsets/${testset.id}?revision=${testset.revision}`}
        dir="auto"
        className="wrap-anywhere hover:text-accent hover:underline"
      >
        {safeProse(testset.name)}, revision {testset.revision}
      </Link>
      {' · '}
      {pluralize(evaluation.rows, 'row')} × {pluralize(evaluation.variants.length, 'variant')}
      {evaluation.repeats > 1 && ` × ${evaluation.repeats} repeats`}
      {' · '}
      <time dateTime={evaluation.created_at} title={formatDateTime(evaluation.created_at)}>
        {formatTimeAgo(evaluation.created_at)}
      </time>
      {evaluation.started_at &&
        evaluation.ended_at &&
        ` · ${formatMilliseconds(Date.parse(evaluation.ended_at) - Date.parse(evaluation.started_at))}`}
      {evaluation.cost !== null && ` · ${formatDollars(evaluation.cost)}`}
      {evaluation.score_cost !== null &&
        evaluation.score_cost > 0 &&
        ` · evaluators ${formatDollars(evaluation.score_cost)}`}
      {failed > 0 && <span className="text-bad"> · {failed.toLocaleString('en')} failed</span>}
      {errors > 0 && <span className="text-warn"> · {pluralize(errors, 'evaluator error')}</span>}
    </p>
  );
}

interface Side {
  /** As the server parses it: `ev_…:variant`. */
  value: string;
  title: string;
  variant: string;
}

/** Choose what to compare with: another variant, or another evaluation of the test set. */
export function CompareDialog({ evaluation, onClose }: { evaluation: Evaluation; onClose: () => void }): ReactNode {
  const [, navigate] = useLocation();
  const { data } = useQuery(evaluationsOfTestsetQuery(evaluation.testset.id));
  const ownSides: Side[] = evaluation.variants.map(({ name }) => ({
    value: `${evaluation.id}:${name}`,
    title: `This evaluation: ${name}`,
    variant: name,
  }));
  const others = (data?.data ?? []).filter(({ id }) => id !== evaluation.id);
  const otherSides: Side[] = others.flatMap((other) =>
    other.variants.map((name) => ({
      value: `${other.id}:${name}`,
      title: `${evaluationTitle(other)} (${formatTimeAgo(other.created_at)}): ${name}`,
      variant: name,
    })),
  );
  const sides = [...ownSides, ...otherSides];
  const lastOwnSide = ownSides.at(-1)?.value ?? '';
  const [selection, setSelection] = useState<{ base?: string; candidate?: string }>({});
  const candidate = selection.candidate ?? lastOwnSide;
  // Default: the last variant against the first; with one variant, against the previous evaluation.
  const base =
    selection.base ??
    (ownSides.length > 1
      ? ownSides[0]?.value
      : (otherSides.find(({ variant }) => variant === ownSides[0]?.variant) ?? otherSides[0])?.value) ??
    '';
  const compare = () => navigate(`/evaluations/compare?${new URLSearchParams({ base, candidate })}`);
  return (
    <Dialog open onClose={onClose} title="Compare" description="Compare a candidate with a base, row by row.">
      <form
        className="flex flex-col gap-4 pt-2"
        onSubmit={(event) => {
          event.preventDefault();
          compare();
        }}
      >
        <SideSelect
          label="Base"
          sides={sides}
          value={base}
          onChange={(value) => setSelection({ base: value, candidate })}
        />
        <div className="-my-3 flex justify-center">
          <IconButton label="Swap" size="small" onClick={() => setSelection({ base: candidate, candidate: base })}>
            <ArrowLeftRight className="rotate-90" />
          </IconButton>
        </div>
        <SideSelect
          label="Candidate"
          sides={sides}
          value={candidate}
          onChange={(value) => setSelection({ base, candidate: value })}
        />
        {sides.length < 2 && (
          <p className="text-[13px] text-muted">
            Nothing to compare with yet. Run the test set again or with another variant.
          </p>
        )}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="main" type="submit" disabled={!base || !candidate || base === candidate}>
            Compare
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function SideSelect({
  label,
  sides,
  value,
  onChange,
}: {
  label: string;
  sides: readonly Side[];
  value: string;
  onChange: (value: string) => void;
}): ReactNode {
  return (
    <LabeledField label={label}>
      <Select value={value} onChange={(event) => onChange(event.target.value)}>
        {!sides.some((side) => side.value === value) && <option value="">Choose…</option>}
        {sides.map((side) => (
          <option key={side.value} value={side.value}>
            {side.title}
          </option>
        ))}
      </Select>
    </LabeledField>
  );
}

/** Variants and evaluators as they were at the start, collapsed. */
export function EvaluationSetup({ evaluation }: { evaluation: Evaluation }): ReactNode {
  const { variants, evaluators, limits, selection } = evaluation;
  return (
    <div className="px-4 sm:px-6">
      <CollapsibleSection title="Configuration">
        <div className="grid gap-4 py-1 pl-5 @3xl:grid-cols-2">
          <div className="min-w-0">
            <h3 className="text-[13px] font-medium text-muted">Variants</h3>
            {variants.map(({ name, workflow, variant, column, parameters, map }) => (
              <div key={name} className="mt-1 min-w-0">
                <p dir="auto" className="text-[13px] wrap-anywhere">
                  <span className="font-medium">{safeProse(name)}</span>{' '}
                  <span className="text-muted">
                    {workflow ? [workflow, variant].filter(Boolean).join(', ') : `column ${column}`}
                  </span>
                </p>
                {parameters && Object.keys(parameters).length > 0 && <JsonView value={parameters} />}
                <JsonView value={map} openLevels={0} />
              </div>
            ))}
          </div>
          <div className="min-w-0">
            <h3 className="text-[13px] font-medium text-muted">Evaluators</h3>
            {evaluators.map(({ name, key, parameters }) => (
              <div key={name} className="mt-1 min-w-0">
                <p dir="auto" className="text-[13px] wrap-anywhere">
                  <span className="font-medium">{safeProse(name)}</span>{' '}
                  {name !== key && <span className="text-muted">{key}</span>}
                </p>
                {parameters && Object.keys(parameters).length > 0 && <JsonView value={parameters} />}
              </div>
            ))}
            <h3 className="mt-3 text-[13px] font-medium text-muted">Limits</h3>
            <JsonView value={selection ? { ...limits, rows: selection } : limits} />
          </div>
        </div>
      </CollapsibleSection>
    </div>
  );
}

/** Progress, pace, remaining time and failure reason. */
export function ProgressSection({
  evaluation,
  progress,
}: {
  evaluation: Evaluation;
  progress: Progress | null;
}): ReactNode {
  const { state, done, failed, total, reason } = evaluation;
  if (!isActive(state))
    return (
      reason && (
        <div className="px-4 pt-3 sm:px-6">
          <ErrorMessage error={reason.message} />
        </div>
      )
    );
  const facts = [
    `${(done + failed).toLocaleString('en')} of ${total.toLocaleString('en')} cells`,
    failed > 0 && `${failed.toLocaleString('en')} failed`,
    progress?.rate && formatPace(progress.rate),
    progress?.eta_seconds !== null &&
      progress?.eta_seconds !== undefined &&
      `${formatTimeLeft(progress.eta_seconds)} left`,
  ].filter(Boolean);
  return (
    <section aria-label="Progress" className="flex flex-col gap-1.5 px-4 pt-3 sm:px-6">
      <ProgressBar state={state} done={done} failed={failed} total={total} />
      <p role="status" className="text-[13px] text-muted tabular-nums">
        {state === 'queued' ? 'Waiting to start' : facts.join(' · ')}
      </p>
    </section>
  );
}
