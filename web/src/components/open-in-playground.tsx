/** Open a conversation or the inputs of a trace in the playground; asks for the workflow if it is unknown. */
import { useQuery } from '@tanstack/react-query';
import { useCallback, useState, type ReactNode } from 'react';
import { useLocation } from 'wouter';
import { type Schemas, api, type Workflow } from '@/api/client';
import { workflowsQuery, queryClient, workflowQuery } from '@/api/queries';
import { completeStep } from '@/app/tour/progress';
import { BoardStore } from '@/pages/playground/board-store';
import { Dialog } from './dialog';
import { Badge, ErrorMessage, Spinner } from './status';
import { showToast, showError } from './toast';

interface OpenInPlayground {
  /** Load the target and open it; asks for the workflow if it is unknown. */
  open: (load: () => Promise<PlaygroundTarget>, title: string) => Promise<void>;
  busy: boolean;
  /** Dialog that asks for the workflow; the caller renders it. */
  workflowDialog: ReactNode;
}

export function useOpenInPlayground(): OpenInPlayground {
  const [, navigate] = useLocation();
  const [busy, setBusy] = useState(false);
  const [dialogTarget, setDialogTarget] = useState<{ target: PlaygroundTarget; title: string } | null>(null);

  const start = useCallback(
    async (workflow: string, target: PlaygroundTarget, title: string) => {
      const { path, notice } = await openInPlayground(workflow, target, title);
      completeStep('trace');
      if (notice) showToast(notice);
      navigate(path);
    },
    [navigate],
  );
  const open = useCallback(
    (load: () => Promise<PlaygroundTarget>, title: string) => {
      const loadAndOpen = async () => {
        const target = await load();
        if (target.workflow && (await isServedWorkflow(target.workflow))) await start(target.workflow, target, title);
        else setDialogTarget({ target, title });
      };
      setBusy(true);
      return loadAndOpen().finally(() => setBusy(false));
    },
    [start],
  );
  const choose = (workflow: string) => {
    if (!dialogTarget) return;
    setDialogTarget(null);
    setBusy(true);
    start(workflow, dialogTarget.target, dialogTarget.title)
      .catch(showError)
      .finally(() => setBusy(false));
  };
  return {
    open,
    busy,
    workflowDialog: (
      <WorkflowDialog
        name={dialogTarget?.target.workflow ?? null}
        open={dialogTarget !== null}
        onClose={() => setDialogTarget(null)}
        onChoose={choose}
      />
    ),
  };
}

function WorkflowDialog({
  name,
  open,
  onClose,
  onChoose,
}: {
  name: string | null;
  open: boolean;
  onClose: () => void;
  onChoose: (workflow: string) => void;
}): ReactNode {
  const workflows = useQuery({ ...workflowsQuery(), enabled: open });
  const rows = workflows.data?.data.toSorted((one, other) => Number(other.is_chat) - Number(one.is_chat));
  const reason = name
    ? `The workflow ${name.slice(0, 80)} is not available on this server.`
    : 'The trace does not name a workflow.';
  return (
    <Dialog open={open} onClose={onClose} title="Continue with which workflow?" description={reason}>
      {workflows.error && <ErrorMessage error={workflows.error} />}
      {workflows.isPending && <Spinner />}
      {rows?.length === 0 && <p className="text-muted">No workflows available.</p>}
      <ul className="-mx-2 space-y-0.5">
        {rows?.map((workflow) => (
          <li key={workflow.name}>
            <button
              type="button"
              onClick={() => onChoose(workflow.name)}
              className="flex w-full items-center gap-2 rounded-lg px-2 py-1.5 text-left hover:bg-sunken"
            >
              <span className="min-w-0 grow">
                <span className="block truncate font-medium">{workflow.name}</span>
                {workflow.description && (
                  <span className="block truncate text-[13px] text-muted" dir="auto">
                    {workflow.description}
                  </span>
                )}
              </span>
              <Badge>{workflow.is_chat ? 'Chat' : 'Single-turn'}</Badge>
            </button>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

export type PlaygroundTarget = Schemas['ThreadDraft'];
type Values = Record<string, unknown>;

/** Split inputs into those that the workflow accepts and the names of the others. */
export function splitInputs(values: Values, schema: Values | undefined): { accepted: Values; omitted: string[] } {
  const declared = schema?.['properties'];
  const names = typeof declared === 'object' && declared !== null ? declared : {};
  const acceptsAny = schema?.['additionalProperties'] !== undefined && schema['additionalProperties'] !== false;
  const entries = Object.entries(values);
  const isAccepted = (name: string) => acceptsAny || Object.hasOwn(names, name);
  return {
    accepted: Object.fromEntries(entries.filter(([name]) => isAccepted(name))),
    omitted: entries.flatMap(([name]) => (isAccepted(name) ? [] : [name])),
  };
}

/** One line about omitted inputs; null if there are none. */
export function omittedInputsNotice(workflow: string, names: readonly string[]): string | null {
  if (!names.length) return null;
  const shortNames = names.slice(0, 3).map((name) => (name.length > 40 ? `${name.slice(0, 40)}…` : name));
  const others = names.length - shortNames.length;
  const suffix = others > 0 ? ` and ${others} more` : '';
  return `Left out values that ${workflow} does not accept: ${shortNames.join(', ')}${suffix}.`;
}

export async function isServedWorkflow(name: string | null): Promise<boolean> {
  if (!name) return false;
  const { data } = await queryClient.fetchQuery(workflowsQuery());
  return data.some((workflow) => workflow.name === name);
}

/** Create a thread or a board; return its path and a notice about omitted inputs. Starts no run. */
export async function openInPlayground(
  name: string,
  target: PlaygroundTarget,
  title: string,
): Promise<{ path: string; notice: string | null }> {
  const workflow = await queryClient.fetchQuery(workflowQuery(name));
  const inputs = splitInputs(target.inputs, workflow.schemas.inputs);
  const parameters = splitInputs(target.parameters, workflow.schemas.parameters);
  const request = { inputs: inputs.accepted, parameters: parameters.accepted };
  const path = await (workflow.is_chat
    ? createThread(workflow, target, request)
    : createBoard(workflow, request, title));
  return { path, notice: omittedInputsNotice(name, [...inputs.omitted, ...parameters.omitted]) };
}

interface OpenRequest {
  inputs: Values;
  parameters: Values;
}

async function createThread({ name }: Workflow, target: PlaygroundTarget, request: OpenRequest): Promise<string> {
  const body = { workflow: name, ...request, messages: target.messages };
  // The generated body type allows no keys in free-form objects.
  const created = await api('post', '/api/threads', { body: body as never });
  return `/play/${created.id}`;
}

async function createBoard({ name }: Workflow, { inputs, parameters }: OpenRequest, title: string): Promise<string> {
  const store = BoardStore.draft({
    name: title.slice(0, 120),
    mode: 'single',
    columns: [{ id: 'c1', workflow: name, variant: 'default', parameters }],
    rows: [{ id: 'r1', name: '', inputs }],
    layout: {},
  });
  return `/play/${(await store.ensure()).id}`;
}
