/** Connected services: list, connect, refresh, disconnect. */
import { queryOptions } from '@tanstack/react-query';
import { useState } from 'react';
import { api, type Workflow } from '@/api/client';
import { queryClient } from '@/api/queries';
import { askConfirmation } from '@/components/confirm-dialog';
import { showError } from '@/components/toast';

export const connectionsQuery = () =>
  queryOptions({
    queryKey: ['connections'],
    queryFn: ({ signal }) => api('get', '/api/connections', { query: { limit: 200 }, signal }),
  });

export type Dialect = 'invoke' | 'run' | 'responses' | 'chat-completions';

export interface ConnectionRequest {
  url: string;
  name: string;
  /** Null: ask the service. */
  isChat: boolean | null;
  dialect: Dialect | null;
  model: string;
}

/** Probe a service, and serve it unless `dryRun`. */
export async function connect(
  { url, name, isChat, dialect, model }: ConnectionRequest,
  dryRun: boolean,
): Promise<Workflow> {
  const body = {
    url: url.trim(),
    ...(name.trim() ? { name: name.trim() } : {}),
    ...(isChat === null ? {} : { is_chat: isChat }),
    ...(dialect === null ? {} : { dialect }),
    ...(model.trim() ? { model: model.trim() } : {}),
    dry_run: dryRun,
  };
  const workflow = await api('post', '/api/connections', { body });
  if (!dryRun) await invalidateWorkflows();
  return workflow;
}

/** Asks for confirmation; resolves to whether it was disconnected. */
export async function disconnect(name: string): Promise<boolean> {
  const confirmed = await askConfirmation({
    title: `Disconnect ${name}?`,
    text: 'The workflow is removed from this server. Its threads stay readable.',
    act: 'Disconnect',
    danger: true,
  });
  if (!confirmed) return false;
  await api('delete', '/api/connections/{name}', { path: { name } });
  await invalidateWorkflows();
  return true;
}

/** Probe a connected service again. */
export async function refreshWorkflow(name: string): Promise<Workflow> {
  const workflow = await api('post', '/api/workflows/{name}/refresh', { path: { name } });
  queryClient.setQueryData(['workflow', name], workflow);
  await invalidateWorkflows();
  return workflow;
}

const invalidateWorkflows = () =>
  Promise.all([
    queryClient.invalidateQueries({ queryKey: ['workflows'] }),
    queryClient.invalidateQueries({ queryKey: ['connections'] }),
  ]);

/** Whether a refresh is running, and the function that starts one. */
export function useRefresh(name: string): [boolean, () => void] {
  const [isRefreshing, setRefreshing] = useState(false);
  const start = () => {
    setRefreshing(true);
    refreshWorkflow(name)
      .catch(showError)
      .finally(() => setRefreshing(false));
  };
  return [isRefreshing, start];
}
