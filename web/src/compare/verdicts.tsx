/** What each evaluator says, in a sentence, and how sure it is: the difference with its interval, about zero. */
import type { ReactNode } from 'react';
import { change, points } from '@/evaluations/words';
import { classes } from '@/lib/class-names';
import { prose } from '@/lib/safe-text';
import { Badge } from '@/components/status';
import { verdict, type Compared } from './pairing';

const WORDS = { worse: 'Worse', better: 'Better', same: 'Same', unclear: 'Unclear' };
const TONES = { worse: 'bad', better: 'good', same: 'plain', unclear: 'warn' } as const;
const FILLS = { worse: 'fill-bad stroke-bad', better: 'fill-good stroke-good', same: 'fill-muted stroke-muted', unclear: 'fill-warn stroke-warn' };

interface Props {
  evaluators: readonly Compared[];
  margin: number;
  chosen: string;
  onChoose: (name: string) => void;
}

export function Verdicts({ evaluators, margin, chosen, onChoose }: Props): ReactNode {
  const ends = (measure: Compared['measure']) => Math.max(margin * 2, 0.05, ...evaluators.filter((one) => one.measure === measure).flatMap(({ difference, ci }) => [difference ?? 0, ...(ci ?? [])].map(Math.abs)));
  const widest = { pass_rate: ends('pass_rate'), mean: ends('mean') };
  return (
    <section aria-label="Verdicts" className="overflow-hidden rounded-xl border bg-surface">
      <ul>
        {evaluators.map((one) => (
          <li key={one.name} className={classes('border-b last:border-0', one.name === chosen && evaluators.length > 1 && 'bg-accent-soft/40')}>
            <button type="button" aria-pressed={one.name === chosen} onClick={() => onChoose(one.name)} className="grid w-full items-center gap-x-4 gap-y-1 px-4 py-3 text-left -outline-offset-2 hover:bg-sunken/60 @3xl:grid-cols-[minmax(0,1fr)_18rem]">
              <span className="min-w-0">
                <span className="flex flex-wrap items-center gap-2">
                  <Badge tone={TONES[one.verdict]}>{WORDS[one.verdict]}</Badge>
                  <bdi className="font-medium wrap-anywhere">{prose(one.name)}</bdi>
                </span>
                <span className="block text-[13px] text-muted">{verdict(one)}</span>
                <span className="block text-xs text-faint">{facts(one)}</span>
              </span>
              <Difference one={one} margin={margin} widest={widest[one.measure]} />
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function facts(one: Compared): string {
  const { p_adjusted: p, test, unpaired, score } = one;
  return [
    p !== null && `p = ${p < 0.001 ? '< 0.001' : p.toFixed(3)} (${test === 'mcnemar-exact' ? 'McNemar, exact' : 'paired bootstrap'}, Holm)`.replace('= <', '<'),
    score && `mean score ${change(score.difference)}`,
    unpaired > 0 && `${unpaired.toLocaleString('en')} without a partner`,
  ].filter(Boolean).join(' · ');
}

const WIDE = 288;
const TALL = 40;
const MIDDLE = 16;

/** Zero in the middle; what does not matter is grey. */
function Difference({ one, margin, widest }: { one: Compared; margin: number; widest: number }): ReactNode {
  const { difference, ci, measure } = one;
  if (difference === null || !ci) return <span aria-hidden />;
  const told = measure === 'pass_rate' ? points : change;
  const at = (value: number): number => WIDE / 2 + (Math.max(-widest, Math.min(widest, value)) / widest) * (WIDE / 2 - 10);
  const label = `Difference ${told(difference)}, between ${told(ci[0])} and ${told(ci[1])}`;
  return (
    <svg role="img" aria-label={label} viewBox={`0 0 ${WIDE} ${TALL}`} className="block w-full max-w-72">
      <title>{label}</title>
      <rect x={at(-margin)} y={4} width={at(margin) - at(-margin)} height={24} className="fill-sunken" />
      <line x1={WIDE / 2} x2={WIDE / 2} y1={2} y2={30} className="stroke-strong-line" />
      <g className={FILLS[one.verdict]} strokeWidth={2}>
        <line x1={at(ci[0])} x2={at(ci[1])} y1={MIDDLE} y2={MIDDLE} />
        <line x1={at(ci[0])} x2={at(ci[0])} y1={MIDDLE - 5} y2={MIDDLE + 5} />
        <line x1={at(ci[1])} x2={at(ci[1])} y1={MIDDLE - 5} y2={MIDDLE + 5} />
        <circle cx={at(difference)} cy={MIDDLE} r={4} />
      </g>
      <g className="fill-faint text-[10px]">
        <text x={0} y={TALL - 1}>worse</text>
        <text x={WIDE / 2} y={TALL - 1} textAnchor="middle">0</text>
        <text x={WIDE} y={TALL - 1} textAnchor="end">better</text>
      </g>
    </svg>
  );
}
