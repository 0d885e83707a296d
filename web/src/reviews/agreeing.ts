/** Agreement of many pairs as one line for each question, for a list. Pure. */
import type { Agreement } from './queries';

export interface Glance {
  question: string;
  /** Of all items that two have answered, those that they answered alike. */
  percent: number;
  /** The mean over pairs, each counted by its items; null where no pair has one. */
  kappa: number | null;
}

/** Of reviewers only: a judge is no colleague. */
export function atGlance(all: readonly Agreement[]): Glance[] {
  const people = all.filter(({ kind, n }) => kind === 'reviewers' && n > 0);
  return [...new Set(people.map(({ question }) => question))].map((question) => {
    const pairs = people.filter((pair) => pair.question === question);
    const weighed = pairs.flatMap(({ kappa, n }) => (kappa === null ? [] : [{ value: kappa, n }]));
    return { question, percent: mean(pairs.map(({ percent, n }) => ({ value: percent ?? 0, n }))), kappa: weighed.length > 0 ? mean(weighed) : null };
  });
}

const mean = (values: readonly { value: number; n: number }[]): number => values.reduce((sum, { value, n }) => sum + value * n, 0) / values.reduce((sum, { n }) => sum + n, 0);
