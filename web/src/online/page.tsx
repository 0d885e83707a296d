/** /evaluations/online: rules that score live traffic, each with what it came to; switched on and off here. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { Plus, Radio } from 'lucide-react';
import { lazy, Suspense, type ReactNode } from 'react';
import { useSearchParams } from 'wouter';
import { useCommand } from '@/app/commands';
import { useTitle } from '@/lib/hooks';
import { Empty, Problem, Spinner } from '@/components/status';
import { Button } from '@/components/button';
import { rulePages } from './queries';
import { RuleCard } from './rule-card';

const NewDialog = lazy(() => import('./new-dialog'));

export default function OnlinePage(): ReactNode {
  useTitle('Online rules');
  const [params, setParams] = useSearchParams();
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(rulePages());
  const rules = data?.pages.flatMap((page) => page.data) ?? [];
  const open = () => setParams({ new: '1' });
  useCommand({ id: 'new-rule', title: 'New online rule', group: 'Online rules', run: open });
  return (
    <div className="flex h-full flex-col">
      <header className="flex shrink-0 flex-wrap items-center gap-2 border-b bg-surface px-4 py-2.5 sm:px-6">
        <h1 className="mr-auto text-base font-semibold">Online rules</h1>
        <Button look="main" onClick={open}><Plus aria-hidden className="size-4" />New rule</Button>
      </header>
      <div className="min-h-0 grow overflow-y-auto px-4 py-4 sm:px-6">
        {error && !data && <Problem error={error}><Button size="small" onClick={() => void refetch()}>Try again</Button></Problem>}
        {!data && !error && <Spinner />}
        {data && rules.length === 0 && (
          <Empty title="No rules yet" icon={<Radio />}>
            <p>A rule scores a share of your live traffic with evaluators, as traces come in, and shows how many pass.</p>
            <p className="my-4"><Button look="main" onClick={open}><Plus aria-hidden className="size-4" />New rule</Button></p>
          </Empty>
        )}
        <ul aria-label="Rules" className="mx-auto flex max-w-5xl flex-col gap-3">{rules.map((rule) => <RuleCard key={rule.id} rule={rule} />)}</ul>
        {hasNextPage && <div className="flex justify-center p-3"><Button size="small" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>More</Button></div>}
      </div>
      {params.get('new') === '1' && <Suspense><NewDialog onClose={() => setParams({})} /></Suspense>}
    </div>
  );
}
