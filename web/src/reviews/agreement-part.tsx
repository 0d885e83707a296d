/** How much people agree, with each other and with judges: for each question and pair the items, the share and kappa. */
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { score } from '@/evaluations/words';
import { prose } from '@/lib/safe-text';
import { Badge, Problem, Spinner } from '@/components/status';
import { Button } from '@/components/button';
import { kappaWords } from './answering';
import { agreement, type Agreement, type Review } from './queries';

export function AgreementPart({ review }: { review: Review }): ReactNode {
  const { data, error, refetch } = useQuery(agreement(review.id));
  const rows = data?.data ?? [];
  return (
    <section aria-label="Agreement" className="min-w-0">
      <h2 className="font-semibold">Agreement</h2>
      <p className="mb-2 text-[13px] text-muted">Of the items that both have answered: how many alike, and Cohen’s kappa, which takes away what chance alone would give. Of scores, a near miss is less of a disagreement than a far one.</p>
      {error && <Problem error={error}><Button size="small" onClick={() => void refetch()}>Try again</Button></Problem>}
      {!data && !error && <Spinner />}
      {data && rows.length === 0 && <p className="text-faint">{review.reviewers < 2 ? 'Each item is answered by one person, so there is nobody to agree with.' : 'There is none yet: no two have answered the same item.'}</p>}
      {rows.length > 0 && (
        <div className="overflow-x-auto rounded-xl border bg-surface">
          <table className="w-full text-[13px]">
            <thead>
              <tr className="border-b text-left text-xs text-faint [&>th]:px-2 [&>th]:py-1.5 sm:[&>th]:px-3 [&>th]:font-medium">
                <th scope="col">Question</th>
                <th scope="col">Who</th>
                <th scope="col" className="text-right">Items</th>
                <th scope="col" className="text-right">Alike</th>
                <th scope="col">Kappa</th>
              </tr>
            </thead>
            <tbody>{rows.map((row) => <Row key={`${row.question} ${row.kind} ${row.raters.join(' ')}`} row={row} />)}</tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Row({ row: { question, raters, kind, n, percent, kappa } }: { row: Agreement }): ReactNode {
  return (
    <tr className="border-b last:border-0 [&>td]:px-2 [&>td]:py-1.5 sm:[&>td]:px-3">
      <td dir="auto" className="max-w-48 wrap-anywhere">{prose(question)}</td>
      <td className="wrap-anywhere sm:min-w-40"><bdi>{prose(raters[0])}</bdi> <span className="text-faint">and</span> <bdi>{prose(raters[1])}</bdi> {kind === 'judge' && <Badge>Judge</Badge>}</td>
      <td className="text-right tabular-nums">{n.toLocaleString('en')}</td>
      <td className="text-right whitespace-nowrap tabular-nums">{percent === null ? '–' : `${Math.round(percent)} %`}</td>
      <td className="whitespace-nowrap tabular-nums">
        {kappa === null ? <span className="text-faint" title="One of them always says the same, or there is nothing to compare.">–</span> : <>{score(Math.round(kappa * 100) / 100)} <span className="text-muted max-sm:hidden">{kappaWords(kappa)}</span></>}
      </td>
    </tr>
  );
}
