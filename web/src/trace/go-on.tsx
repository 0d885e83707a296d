/** Opens what was said in the playground, with its workflow; where nobody knows which that was, it asks. */
import { useQuery } from '@tanstack/react-query';
import { useCallback, useState, type ReactNode } from 'react';
import { useLocation } from 'wouter';
import { workflows } from '@/api/queries';
import { done } from '@/tour/done';
import { Badge, Problem, Spinner } from '@/ui/bits';
import { Dialog } from '@/ui/dialog';
import { tell, tellError } from '@/ui/toast';
import { begin, isKnown, type Live } from './opening';

interface GoingOn {
  /** `read` gives what to go on with. */
  goOn: (read: () => Promise<Live>, title: string) => Promise<void>;
  busy: boolean;
  /** To be shown somewhere: asks which workflow is meant. */
  question: ReactNode;
}

export function useGoOn(): GoingOn {
  const [, navigate] = useLocation();
  const [busy, setBusy] = useState(false);
  const [asked, setAsked] = useState<{ live: Live; title: string } | null>(null);

  const start = useCallback(
    async (workflow: string, live: Live, title: string) => {
      const { address, rest } = await begin(workflow, live, title);
      done('trace');
      if (rest) tell(rest);
      navigate(address);
    },
    [navigate],
  );
  const goOn = useCallback(
    (read: () => Promise<Live>, title: string) => {
      const go = async () => {
        const live = await read();
        if (live.workflow && (await isKnown(live.workflow))) await start(live.workflow, live, title);
        else setAsked({ live, title });
      };
      setBusy(true);
      return go().finally(() => setBusy(false));
    },
    [start],
  );
  const choose = (workflow: string) => {
    if (!asked) return;
    setAsked(null);
    setBusy(true);
    start(workflow, asked.live, asked.title).catch(tellError).finally(() => setBusy(false));
  };
  return { goOn, busy, question: <Which name={asked?.live.workflow ?? null} open={asked !== null} onClose={() => setAsked(null)} onChoose={choose} /> };
}

function Which({ name, open, onClose, onChoose }: { name: string | null; open: boolean; onClose: () => void; onChoose: (workflow: string) => void }): ReactNode {
  const known = useQuery({ ...workflows(), enabled: open });
  const rows = known.data?.data.toSorted((one, other) => Number(other.is_chat) - Number(one.is_chat));
  const why = name ? `${name.slice(0, 80)} is not served here.` : 'The trace does not say which workflow it is of.';
  return (
    <Dialog open={open} onClose={onClose} title="Which workflow goes on?" description={why}>
      {known.error && <Problem error={known.error} />}
      {known.isPending && <Spinner />}
      {rows?.length === 0 && <p className="text-muted">No workflow is served.</p>}
      <ul className="-mx-2 space-y-0.5">
        {rows?.map((workflow) => (
          <li key={workflow.name}>
            <button type="button" onClick={() => onChoose(workflow.name)} className="flex w-full items-center gap-2 rounded-lg px-2 py-1.5 text-left hover:bg-sunken">
              <span className="min-w-0 grow">
                <span className="block truncate font-medium">{workflow.name}</span>
                {workflow.description && <span className="block truncate text-[13px] text-muted" dir="auto">{workflow.description}</span>}
              </span>
              <Badge>{workflow.is_chat ? 'Chat' : 'Single turn'}</Badge>
            </button>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
