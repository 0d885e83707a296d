/** Summary table: variants by evaluators with intervals, also sliced by a column. */
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { Select } from '@/components/form-fields';
import { ErrorMessage, Spinner } from '@/components/status';
import { pluralize, formatDollars } from '@/lib/format';
import { safeProse } from '@/lib/safe-text';
import { formatMilliseconds } from '@/pages/traces/detail/timeline';
import { IntervalBar, intervalScale } from './badges';
import { evaluatorFigure, formatFigure, formatInterval } from './format';
import { testsetRevisionQuery, type Evaluation, type Summary, type ResultsQuery } from './queries';

interface Props {
  evaluation: Evaluation;
  summary: Summary | undefined;
  error: Error | null;
  slice: string | null;
  onSlice: (column: string | null) => void;
  /** Show the results behind a figure. */
  onShow: (patch: Partial<ResultsQuery>) => void;
}

type VariantFigures = Summary['variants'][number];
type Figures = VariantFigures['evaluators'][number];

export function SummarySection({ evaluation, summary, error, slice, onSlice, onShow }: Props): ReactNode {
  const { testset } = evaluation;
  const columns = useQuery(testsetRevisionQuery(testset.id, String(testset.revision))).data?.kinds ?? [];
  const names = [...new Set(summary?.variants.flatMap(({ evaluators }) => evaluators.map(({ name }) => name)))];
  return (
    <section aria-label="Summary" className="px-4 py-3 sm:px-6">
      <div className="mb-2 flex flex-wrap items-center gap-2">
        <h2 className="grow font-semibold">Summary</h2>
        {columns.length > 0 && (
          // oxlint-disable-next-line jsx-a11y/label-has-associated-control -- the choice is its child
          <label className="flex items-center gap-2 text-[13px] text-muted">
            Group by
            <Select
              className="h-7 w-auto max-w-48 text-[13px]"
              value={slice ?? ''}
              onChange={(event) => onSlice(event.target.value || null)}
            >
              <option value="">None</option>
              {slice && !columns.some(({ name }) => name === slice) && <option>{slice}</option>}
              {columns.map(({ name }) => (
                <option key={name}>{name}</option>
              ))}
            </Select>
          </label>
        )}
      </div>
      {error && <ErrorMessage error={error} />}
      {!summary && !error && <Spinner />}
      {summary && (
        <div className="overflow-x-auto rounded-xl border bg-surface">
          <table className="w-full text-left text-[13px]">
            <thead className="text-xs text-faint">
              <tr className="border-b">
                <th scope="col" className="px-3 py-2 font-medium">
                  Variant
                </th>
                {names.map((name) => (
                  <th
                    key={name}
                    scope="col"
                    dir="auto"
                    className="max-w-60 min-w-40 truncate px-3 py-2 font-medium"
                    title={name}
                  >
                    {safeProse(name)}
                  </th>
                ))}
                <th scope="col" className="px-3 py-2 text-right font-medium">
                  Latency
                </th>
                <th scope="col" className="px-3 py-2 text-right font-medium">
                  Cost
                </th>
              </tr>
            </thead>
            <tbody>
              {summary.variants.map((variant) => (
                <VariantLine
                  key={variant.name}
                  evaluation={evaluation.id}
                  variant={variant}
                  summary={summary}
                  names={names}
                  onShow={onShow}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {summary && slice && <SliceTables summary={summary} names={names} />}
    </section>
  );
}

interface LineProps {
  evaluation: string;
  variant: VariantFigures;
  summary: Summary;
  names: readonly string[];
  onShow: Props['onShow'];
}

function VariantLine({ evaluation, variant, summary, names, onShow }: LineProps): ReactNode {
  const firstVariant = summary.variants[0]?.name ?? variant.name;
  const { p50, p95 } = variant.latency;
  return (
    <tr className="border-b align-top last:border-0">
      <th scope="row" className="min-w-32 px-3 py-2 font-medium">
        <bdi className="wrap-anywhere">{safeProse(variant.name)}</bdi>
        <span className="block text-xs font-normal text-muted">
          {pluralize(variant.cells, 'cell')}
          {variant.failed > 0 && (
            <button
              type="button"
              className="ml-1 text-bad hover:underline"
              onClick={() => onShow({ variant: variant.name, status: 'failed', evaluator: null, passed: null })}
            >
              {pluralize(variant.failed, 'failed call')}
            </button>
          )}
        </span>
        {firstVariant !== variant.name && (
          <Link
            href={`/evaluations/compare?${new URLSearchParams({
              base: `${evaluation}:${firstVariant}`,
              candidate: `${evaluation}:${variant.name}`,
            })}`}
            className="text-xs font-normal text-accent hover:underline"
          >
            Compare
          </Link>
        )}
      </th>
      {names.map((name) => {
        const figures = variant.evaluators.find((evaluator) => evaluator.name === name);
        const allFigures = summary.variants
          .flatMap(({ evaluators }) => evaluators.filter((evaluator) => evaluator.name === name))
          .map(evaluatorFigure);
        return (
          <td key={name} className="px-3 py-2">
            {figures && (
              <FigureCell figures={figures} scale={intervalScale(allFigures)} variant={variant.name} onShow={onShow} />
            )}
          </td>
        );
      })}
      <td className="px-3 py-2 text-right whitespace-nowrap tabular-nums">
        {p50 === null ? (
          <span aria-hidden className="text-faint">
            –
          </span>
        ) : (
          formatMilliseconds(p50 * 1000)
        )}
        {p95 !== null && (
          <span className="block text-xs text-muted" title="95th percentile">
            p95 {formatMilliseconds(p95 * 1000)}
          </span>
        )}
      </td>
      <td className="px-3 py-2 text-right tabular-nums">
        {variant.cost === null ? (
          <span aria-hidden className="text-faint">
            –
          </span>
        ) : (
          formatDollars(variant.cost)
        )}
      </td>
    </tr>
  );
}

function FigureCell({
  figures,
  scale,
  variant,
  onShow,
}: {
  figures: Figures;
  scale: readonly [number, number];
  variant: string;
  onShow: Props['onShow'];
}): ReactNode {
  const figure = evaluatorFigure(figures);
  const { scored, unscored, unscored_reason: reason, errors, flaky, name } = figures;
  const filter = { variant, evaluator: name };
  return (
    <div className="min-w-0">
      {figure ? (
        <div className="flex items-center gap-2">
          <span className="w-14 shrink-0 font-medium tabular-nums" title={formatInterval(figure)}>
            {formatFigure(figure)}
          </span>
          <IntervalBar figure={figure} scale={scale} />
        </div>
      ) : (
        <span className="text-faint">Not scored</span>
      )}
      <p className="mt-0.5 flex flex-wrap gap-x-2 text-xs text-muted">
        <span>{scored.toLocaleString('en')} scored</span>
        {figure?.kind === 'mean' && <span>mean</span>}
        {figures.pass_rate !== null && figures.pass_rate < 1 && figures.n > 0 && (
          <button
            type="button"
            className="text-bad hover:underline"
            onClick={() => onShow({ ...filter, passed: false, status: null })}
          >
            {Math.round((1 - figures.pass_rate) * figures.n).toLocaleString('en')} not passed
          </button>
        )}
        {unscored > 0 && <span className="text-warn">{unscored.toLocaleString('en')} not scored</span>}
        {errors > 0 && (
          <button
            type="button"
            className="text-warn hover:underline"
            onClick={() => onShow({ ...filter, status: 'error', passed: null })}
          >
            {pluralize(errors, 'evaluator error')}
          </button>
        )}
        {flaky !== null && flaky > 0 && (
          <button
            type="button"
            className="text-warn hover:underline"
            onClick={() => onShow({ ...filter, flaky: true, passed: null, status: null })}
          >
            {flaky.toLocaleString('en')} flaky
          </button>
        )}
      </p>
      {unscored > 0 && reason && (
        <p dir="auto" className="mt-0.5 line-clamp-3 max-w-80 text-xs wrap-anywhere text-warn" title={reason}>
          Most often: {safeProse(reason)}
        </p>
      )}
    </div>
  );
}

/** A table for each evaluator: values as rows, variants as columns. */
function SliceTables({ summary, names }: { summary: Summary; names: readonly string[] }): ReactNode {
  return names.map((name) => {
    const columns = summary.variants.map((variant) => ({
      variant: variant.name,
      slices: variant.evaluators.find((evaluator) => evaluator.name === name)?.slices ?? [],
    }));
    const values = [
      ...new Map(columns.flatMap(({ slices }) => slices.map(({ value }) => [JSON.stringify(value), value]))),
    ];
    if (values.length === 0) return null;
    const scale = intervalScale(columns.flatMap(({ slices }) => slices.map(evaluatorFigure)));
    return (
      <div key={name} className="mt-3 overflow-x-auto rounded-xl border bg-surface">
        <table aria-label={`${name}, by group`} className="w-full text-left text-[13px]">
          <thead className="text-xs text-faint">
            <tr className="border-b">
              <th scope="col" dir="auto" className="px-3 py-1.5 font-medium">
                {safeProse(name)}
              </th>
              {columns.map(({ variant }) => (
                <th key={variant} scope="col" dir="auto" className="px-3 py-1.5 font-medium">
                  {safeProse(variant)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {values.map(([key, value]) => (
              <tr key={key} className="border-b last:border-0">
                <th
                  scope="row"
                  dir="auto"
                  className="max-w-80 truncate px-3 py-1.5 font-normal"
                  title={formatSliceValue(value)}
                >
                  {safeProse(formatSliceValue(value))}
                </th>
                {columns.map(({ variant, slices }) => {
                  const slice = slices.find((candidate) => JSON.stringify(candidate.value) === key);
                  const figure = slice && evaluatorFigure(slice);
                  return (
                    <td key={variant} className="px-3 py-1.5">
                      {slice && figure ? (
                        <span className="flex items-center gap-2">
                          <span className="w-14 shrink-0 tabular-nums">{formatFigure(figure)}</span>
                          <IntervalBar figure={figure} scale={scale} className="h-4 w-20" />
                          <span className="text-xs whitespace-nowrap text-faint tabular-nums">
                            {pluralize(slice.n, 'row')}
                          </span>
                        </span>
                      ) : (
                        <span aria-hidden className="text-faint">
                          –
                        </span>
                      )}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    );
  });
}

const formatSliceValue = (value: unknown): string =>
  typeof value === 'string' ? value || 'Empty text' : value === undefined ? 'No value' : JSON.stringify(value);
