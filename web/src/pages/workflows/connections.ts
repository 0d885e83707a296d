/** Services elsewhere: which are connected, how one is, and how it is let go. */
import { queryOptions } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '@/api/client';
import { queryClient } from '@/api/queries';
import type { Workflow } from '@/api/types';
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
  /** Not said: the service is asked. */
  isChat: boolean | null;
  dialect: Dialect | null;
  model: string;
}

/** Asks the service what it is; unless that is all (`dry`), it is served from now on. */
export async function connect(
  { url, name, isChat, dialect, model }: ConnectionRequest,
  dry: boolean,
): Promise<Workflow> {
  const body = {
    url: url.trim(),
    ...(name.trim() ? { name: name.trim() } : {}),
    ...(isChat === null ? {} : { is_chat: isChat }),
    ...(dialect === null ? {} : { dialect }),
    ...(model.trim() ? { model: model.trim() } : {}),
    dry_run: dry,
  };
  const workflow = await api('post', '/api/connections', { body });
  if (!dry) await invalidateWorkflows();
  return workflow;
}

/** Asks first; says whether it is gone. */
export async function disconnect(name: string): Promise<boolean> {
  const sure = await askConfirmation({
    title: `Disconnect ${name}?`,
    text: 'It is no longer served here. Its threads stay readable.',
    act: 'Disconnect',
    danger: true,
  });
  if (!sure) return false;
  await api('delete', '/api/connections/{name}', { path: { name } });
  await invalidateWorkflows();
  return true;
}

/** Asks a connected service again what it is. */
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

/** Whether the service is being asked again what it is, and the function that asks it. */
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
